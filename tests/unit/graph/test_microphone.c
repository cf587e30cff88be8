/* Finding the chosen microphone among sources with PipeWire's names. */
#include "graph/microphone.h"
#include "tests/support/run.h"

#include <check.h>
#include <stdlib.h>

static const struct {
    const char *chosen, *name, *description;
    int fits;
} cases[] = {
    {"alsa_input.usb-Blue_Yeti_797_123-00.analog-stereo", "alsa_input.usb-Blue_Yeti_797_123-00.analog-stereo", "", 3},
    {"alsa_input.usb-Blue_Yeti_797_123-00.analog-stereo", "alsa_input.usb-Blue_Yeti_797_123-00.mono-fallback", "", 1},
    {"alsa_input.usb-Blue_Yeti_797_123-00.analog-stereo", "alsa_input.usb-Blue_Yeti_797_124-00.analog-stereo", "", 0},
    {"alsa_input.usb-Blue_Yeti_797_123-00.analog-stereo", "alsa_output.usb-Blue_Yeti_797_123-00.analog-stereo", "", 0},
    {"alsa_input.usb-Noname-00.2.analog-stereo", "alsa_input.usb-Noname-00.analog-stereo", "", 1},
    {"alsa_input.usb-Noname-00.analog-stereo", "alsa_input.usb-Noname-00.2.mono-fallback", "", 1},
    {"alsa_input.pci-0000_00_1f.3.analog-stereo", "alsa_input.pci-0000_00_1f.3.pro-input-0", "", 1},
    {"alsa_input.pci-0000_00_1f.3.analog-stereo", "alsa_input.pci-0000_00_1f.6.analog-stereo", "", 0},
    {"bluez_input.00_1B_66.headset-head-unit", "bluez_input.00:1B:66.0", "", 1},
    {"bluez_input.00_1B_66.0", "bluez_input.00_1B_67.0", "", 0},
    {"bluez_input.00:1B:66", "bluez_input.00:1B:66.headset-head-unit", "", 1},
    {"Blue Yeti", "alsa_input.usb-Blue_Yeti_797_123-00.analog-stereo", "Blue Yeti", 2},
    {"Blue", "alsa_input.usb-Blue_Yeti_797_123-00.analog-stereo", "Blue Yeti", 0},
    {"fake_mic", "fake_mic.2", "", 0},
    {"alsa_input.", "alsa_input.", "", 3},
    {"alsa_input.", "alsa_input.usb", "", 0},
    {"alsa_input.usb-", "alsa_input.usb-1", "", 0},
};

START_TEST(test_fits) {
    ck_assert_int_eq(microphone_fits(cases[_i].chosen, cases[_i].name, cases[_i].description), cases[_i].fits);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("microphone");
    TCase *tests = tcase_create("fits");
    tcase_add_loop_test(tests, test_fits, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK);
}
