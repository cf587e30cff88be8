/* Memory that is smaller than its owner said: a thread that called busfault_survive reads zeros; on any other, SIGBUS
 * ends the process. */
#include "config.h"

#include "base/busfault.h"
#include "tests/support/run.h"

#include <check.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile char *shrunk(size_t pages) {
    const size_t size = pages * (size_t)sysconf(_SC_PAGESIZE);
    const int fd = memfd_create("shrunk", 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    volatile char *const ret = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne((void *)ret, MAP_FAILED);
    ret[0] = 1;
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    close(fd);
    return ret;
}

START_TEST(a_surviving_thread_reads_zeros_and_continues) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *const at = shrunk(3);
    ck_assert_int_eq(busfault_install(), 0);
    busfault_survive();
    ck_assert_int_eq(at[page + 5], 0);
    ck_assert_uint_eq(busfault_count(), 1);
    at[page + 6] = 7; /* the page is ordinary memory now */
    ck_assert_int_eq(at[page + 6], 7);
    ck_assert_uint_eq(busfault_count(), 1);
    at[0] = 3;
    ck_assert_int_eq(at[0], 3);
    ck_assert_uint_eq(busfault_count(), 2);
}
END_TEST

START_TEST(any_other_thread_ends_the_process) {
    volatile char *const at = shrunk(1);
    ck_assert_int_eq(busfault_install(), 0);
    ck_assert_int_eq(at[0], 0);
}
END_TEST

START_TEST(a_signal_from_outside_ends_the_process) {
    ck_assert_int_eq(busfault_install(), 0);
    busfault_survive();
    raise(SIGBUS);
    raise(SIGBUS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("busfault");
    TCase *tcase = tcase_create("busfault");
    tcase_add_test(tcase, a_surviving_thread_reads_zeros_and_continues);
    tcase_add_test_raise_signal(tcase, any_other_thread_ends_the_process, SIGBUS);
    tcase_add_test_raise_signal(tcase, a_signal_from_outside_ends_the_process, SIGBUS);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK);
}
