/* Detection of the power source and of a sleeping GPU, from trees like /sys. */
#include "daemon/power.h"
#include "tests/support/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/test-power-XXXXXX";

/* Writes a line to root/path, and creates its directories. */
static void put(const char *path, const char *line) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *f = fopen(full, "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%s\n", line);
    fclose(f);
}

static void begin(void) {
    strcpy(root, "/tmp/test-power-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void end(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(test_battery) {
    ck_assert(!power_on_battery(root));
    put("class/power_supply/hidpp_battery_0/type", "Battery");
    put("class/power_supply/hidpp_battery_0/scope", "Device");
    put("class/power_supply/hidpp_battery_0/status", "Discharging");
    ck_assert_msg(!power_on_battery(root), "a mouse's battery is not the machine's");
    put("class/power_supply/BAT0/type", "Battery");
    put("class/power_supply/BAT0/status", "Full");
    put("class/power_supply/AC/type", "Mains");
    put("class/power_supply/AC/online", "1");
    ck_assert(!power_on_battery(root));
    put("class/power_supply/AC/online", "0");
    put("class/power_supply/BAT0/status", "Discharging");
    ck_assert(power_on_battery(root));
    put("class/power_supply/ucsi-source-psy-1/type", "USB");
    put("class/power_supply/ucsi-source-psy-1/online", "1");
    ck_assert_msg(!power_on_battery(root), "a weak charger is one");
}
END_TEST

START_TEST(test_gpu) {
    ck_assert(!power_gpu_sleeps(root));
    put("bus/pci/devices/0000:00:02.0/vendor", "0x8086");
    put("bus/pci/devices/0000:00:02.0/class", "0x030000");
    put("bus/pci/devices/0000:00:02.0/power/runtime_status", "suspended");
    put("bus/pci/devices/0000:01:00.1/vendor", "0x10de");
    put("bus/pci/devices/0000:01:00.1/class", "0x040300"); /* its sound over HDMI */
    put("bus/pci/devices/0000:01:00.1/power/runtime_status", "suspended");
    ck_assert(!power_gpu_sleeps(root));
    put("bus/pci/devices/0000:01:00.0/vendor", "0x10de");
    put("bus/pci/devices/0000:01:00.0/class", "0x030200");
    put("bus/pci/devices/0000:01:00.0/power/runtime_status", "active");
    ck_assert(!power_gpu_sleeps(root));
    put("bus/pci/devices/0000:01:00.0/power/runtime_status", "suspended");
    ck_assert(power_gpu_sleeps(root));
    put("bus/pci/devices/0000:02:00.0/vendor", "0x10de");
    put("bus/pci/devices/0000:02:00.0/class", "0x030000");
    put("bus/pci/devices/0000:02:00.0/power/runtime_status", "active");
    ck_assert_msg(!power_gpu_sleeps(root), "one of them is awake");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("power");
    TCase *tests = tcase_create("sys");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, test_battery);
    tcase_add_test(tests, test_gpu);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK);
}
