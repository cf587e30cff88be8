/* The learned voice on disk: what is written is read again, only its owner may read it, and damage is named. */
#include "base/file.h"
#include "print/enrolment.h"
#include "tests/support/run.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/primeknet-enrolment-XXXXXX", path[128];

static struct enrolment learned(void) {
    struct enrolment e = {.encoder = "voice", .size = 256};
    for (unsigned i = 0; i < e.size; i++)
        e.print[i] = (i % 2 ? 1 : -1) / 16.0f;
    e.print[0] = nextafterf(e.print[0], 0);
    return e;
}

START_TEST(is_read_as_it_was_written) {
    const struct enrolment e = learned();
    struct enrolment is = {0};
    struct err err;
    struct stat st;
    ck_assert_int_eq(enrolment_read(&is, &err), -ENOENT);
    ck_assert_int_eq(enrolment_remove(&err), 0);
    umask(0);
    ck_assert_msg(enrolment_write(&e, &err) == 0, "%s", err.text);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_msg(enrolment_read(&is, &err) == 0, "%s", err.text);
    ck_assert_mem_eq(&is, &e, sizeof e);
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_msg(enrolment_write(&e, &err) == 0, "%s", err.text);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(enrolment_remove(&err), 0);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(enrolment_read(&is, &err), -ENOENT);
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    ck_assert_int_eq(enrolment_read(&is, &err), -ENOENT);
    ck_assert_int_eq(enrolment_remove(&err), 0);
}
END_TEST

static const struct damage {
    const char *text, *says;
} damages[] = {
    {"", "is not a JSON object"},
    {"[]", "is not a JSON object"},
    {"{\"format\": \"primeknet-my-voice-2\"}", "'format' is not primeknet-my-voice-1"},
    {"{\"format\": \"primeknet-my-voice-1\", \"encoder\": 1}", "'encoder' is not a name of at most 63 bytes"},
    {"{\"format\": \"primeknet-my-voice-1\", \"encoder\": \"v\"}", "'print' is not a list of 1 to 1024 numbers"},
    {"{\"format\": \"primeknet-my-voice-1\", \"encoder\": \"v\", \"print\": [1, \"1\"]}",
     "'print' has something else than numbers"},
    {"{\"format\": \"primeknet-my-voice-1\", \"encoder\": \"v\", \"print\": [1, 1e300]}", "'print' is not of length 1"},
    {"{\"format\": \"primeknet-my-voice-1\", \"encoder\": \"v\", \"print\": [0]}", "'print' is not of length 1"},
};

START_TEST(damage_is_named) {
    const struct damage *d = damages + _i;
    struct enrolment is, untouched = learned();
    struct err err;
    char should[256];
    is = untouched;
    ck_assert_int_eq(file_write(path, d->text, strlen(d->text), &err), 0);
    ck_assert_int_eq(enrolment_read(&is, &err), -EINVAL);
    snprintf(should, sizeof should, "%s: %s", path, d->says);
    ck_assert_str_eq(err.text, should);
    ck_assert_mem_eq(&is, &untouched, sizeof is);
    unlink(path);
}
END_TEST

int main(void) {
    if (!mkdtemp(dir))
        return 1;
    setenv("XDG_DATA_HOME", dir, 1);
    snprintf(path, sizeof path, "%s/primeknet/my-voice.json", dir);
    Suite *suite = suite_create("enrolment");
    TCase *t = tcase_create("enrolment");
    tcase_add_test(t, is_read_as_it_was_written);
    tcase_add_loop_test(t, damage_is_named, 0, sizeof damages / sizeof *damages);
    suite_add_tcase(suite, t);
    const int failed = run_suite(suite, CK_FORK);
    path[strlen(path) - strlen("/my-voice.json")] = 0;
    rmdir(path);
    rmdir(dir);
    return failed;
}
