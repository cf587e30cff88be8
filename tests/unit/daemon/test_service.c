/* The messages to the service manager, received by the test's own socket. */
#include "daemon/service.h"
#include "tests/support/run.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int manager = -1;

/* An abstract socket: nothing to clean up. */
static void listen_as_manager(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    int n = snprintf(name, sizeof name, "@primeknet-test-service-%ld", (long)getpid());
    memcpy(address.sun_path + 1, name + 1, (size_t)n - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(
        bind(manager, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)), 0);
    setenv("NOTIFY_SOCKET", name, 1);
}

static void stop_listening(void) {
    close(manager);
}

/* Returns the messages since the last call, or "". */
static const char *heard(void) {
    static char text[8192];
    ssize_t n = recv(manager, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

START_TEST(states) {
    service_ready();
    ck_assert_str_eq(heard(), "READY=1");
    service_alive();
    ck_assert_str_eq(heard(), "WATCHDOG=1");
    service_stopping();
    ck_assert_str_eq(heard(), "STOPPING=1");

    struct timespec t;
    unsigned long long usec;
    clock_gettime(CLOCK_MONOTONIC, &t);
    service_reloading();
    ck_assert_int_eq(sscanf(heard(), "RELOADING=1\nMONOTONIC_USEC=%llu", &usec), 1);
    ck_assert_uint_ge(usec, (unsigned long long)t.tv_sec * 1000000);
    ck_assert_uint_le(usec, (unsigned long long)t.tv_sec * 1000000 + 60000000);
}
END_TEST

START_TEST(status_only_when_it_changes) {
    service_status("one");
    ck_assert_str_eq(heard(), "STATUS=one");
    service_status("one");
    ck_assert_str_eq(heard(), "");
    service_status("two");
    ck_assert_str_eq(heard(), "STATUS=two");
    service_status("a microphone's\nSTOPPING=1");
    ck_assert_str_eq(heard(), "STATUS=a microphone's STOPPING=1");
}
END_TEST

/* Words of any length arrive as UTF-8 in one message. */
START_TEST(status_is_cut_between_characters) {
    static const char *const characters[] = {"x", "\u00FC", "\u20AC", "\U0001F3A4"};
    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++)
        for (size_t shift = 0; shift < 4; shift++) {
            char text[5000] = "";
            memset(text, 'a', shift);
            while (strlen(text) + 5 < sizeof text)
                strcat(text, characters[i]);
            service_status(text);
            const char *told = heard();
            size_t n = strlen(told);
            ck_assert_uint_gt(n, 1000);
            ck_assert_uint_lt(n, 4096);
            ck_assert_str_eq(told + n - strlen("\u2026"), "\u2026");
            n -= strlen("STATUS=") + strlen("\u2026");
            ck_assert_uint_eq((n - shift) % strlen(characters[i]), 0);
            ck_assert_mem_eq(told + strlen("STATUS="), text, n);
        }
    service_status("Fran\xE7ois' microphone");
    ck_assert_str_eq(heard(), "STATUS=Fran?ois' microphone");
}
END_TEST

START_TEST(watchdog) {
    unsetenv("WATCHDOG_USEC");
    ck_assert_int_eq(service_watchdog_ms(), -1);
    setenv("WATCHDOG_USEC", "15000000", 1);
    ck_assert_int_eq(service_watchdog_ms(), 5000);
    setenv("WATCHDOG_PID", "1", 1); /* meant for another process */
    ck_assert_int_eq(service_watchdog_ms(), -1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("service");
    TCase *tcase = tcase_create("service");
    tcase_add_checked_fixture(tcase, listen_as_manager, stop_listening);
    tcase_add_test(tcase, states);
    tcase_add_test(tcase, status_only_when_it_changes);
    tcase_add_test(tcase, status_is_cut_between_characters);
    tcase_add_test(tcase, watchdog);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK);
}
