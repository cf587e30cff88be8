/* Notes of recall.h are read back. Malformed ones, or those of another PipeWire, restore no stream. */
#include "tests/support/content.h"
#include "tests/support/run.h"
#include "graph/recall.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char runtime[] = "/tmp/test-recall.XXXXXX", directory[64], file[96];

static const struct recall_stream plain = {.serial = 71, .target = ""},
                                  chosen = {.serial = UINT32_MAX + 9ull, .target = "47"},
                                  misled = {.serial = 73, .misled = true};

START_TEST(notes_are_read_back) {
    struct recall r = {.instance = 0xdeadbeef}, back;
    recall_add(&r, &plain);
    recall_add(&r, &chosen);
    recall_add(&r, &misled);
    recall_write(NULL, &r, "enhanced_mic");
    recall_read(&back, "enhanced_mic");
    ck_assert(recall_same(&r, &back));
    ck_assert(recall_has(&back, 0xdeadbeef, &plain));
    ck_assert(recall_has(&back, 0xdeadbeef, &chosen));
    ck_assert(recall_has(&back, 0xdeadbeef, &misled));
    ck_assert(!recall_has(&back, 0xdeadbeef, &(struct recall_stream){.serial = 73}));
    ck_assert(!recall_has(&back, 1, &plain)); /* another PipeWire's */
    ck_assert(
        !recall_has(&back, 0xdeadbeef, &(struct recall_stream){.serial = 71, .target = "30"})); /* chosen otherwise */
    ck_assert(!recall_has(&back, 0xdeadbeef, &(struct recall_stream){.serial = 72, .target = ""}));
    recall_read(&back, "enhanced_mic.usb");
    ck_assert_uint_eq(back.n, 0);
}
END_TEST

START_TEST(garbage) {
    static const char *const files[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"instance\": \"x\", \"streams\": 3}",
        "{\"instance\": -1, \"streams\": [[], 7, null, {}]}",
        "{\"instance\": 99999999999, \"streams\": [{\"serial\": -4, \"target\": \"\"}, {\"serial\": 1}]}",
        "{\"instance\": 5, \"streams\": [{\"serial\": \"71\", \"target\": \"\"}, {\"serial\": 71, \"target\": 0}]}",
    };
    struct recall r;
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
        put_content(file, files[i]);
        recall_read(&r, "enhanced_mic");
        ck_assert_msg(r.n == 0, "%s", files[i]);
        ck_assert_msg(r.instance == 0 || r.instance == 5, "%s", files[i]); /* a number that fits, or none */
    }
}
END_TEST

/* Notes of older versions lack "misled". */
START_TEST(notes_of_older_versions_are_read) {
    struct recall r;
    put_content(file, "{\"instance\": 5, \"streams\": [{\"serial\": 71, \"target\": \"\"}]}");
    recall_read(&r, "enhanced_mic");
    ck_assert(recall_has(&r, 5, &plain));
}
END_TEST

START_TEST(too_many) {
    struct recall r = {.instance = 5}, back;
    for (unsigned i = 0; i < 2 * RECALL_STREAMS; i++)
        recall_add(&r, &(struct recall_stream){.serial = i});
    ck_assert_uint_eq(r.n, RECALL_STREAMS);
    recall_write(NULL, &r, "enhanced_mic");
    recall_read(&back, "enhanced_mic");
    ck_assert(recall_same(&r, &back));
}
END_TEST

/* Notes are the same if they have the same streams, in any order, of the same PipeWire. */
START_TEST(sameness) {
    struct recall a = {.instance = 5}, b = {.instance = 5}, fewer = {.instance = 5}, other = {.instance = 5},
                  elsewhere = {.instance = 6};
    const struct recall_stream *const streams[] = {&plain, &chosen, &misled};
    for (unsigned i = 0; i < 3; i++) {
        recall_add(&a, streams[i]);
        recall_add(&b, streams[2 - i]);
        recall_add(&other, streams[i / 2]);
        recall_add(&elsewhere, streams[i]);
        if (i)
            recall_add(&fewer, streams[i]);
    }
    ck_assert(recall_same(&a, &b) && recall_same(&b, &a));
    ck_assert(!recall_same(&a, &fewer) && !recall_same(&fewer, &a));
    ck_assert(!recall_same(&a, &other));
    ck_assert(!recall_same(&a, &elsewhere) && !recall_same(&elsewhere, &a));
    ck_assert(!recall_same(&(struct recall){.instance = 5}, &(struct recall){.instance = 6}));
}
END_TEST

START_TEST(no_directory) {
    struct recall r = {.instance = 5}, back;
    struct stat st;
    char within[sizeof directory + 32], beside[sizeof directory + 32];
    snprintf(within, sizeof within, "%s/enhanced_mic.a", directory);
    snprintf(beside, sizeof beside, "%s/b.streams", directory);
    mkdir(within, 0700);
    recall_add(&r, &plain);
    recall_write(NULL, &r, "enhanced_mic.a/../b"); /* a name that is another program's */
    ck_assert_int_lt(stat(file, &st), 0);
    ck_assert_int_lt(stat(beside, &st), 0);
    rmdir(within);
    recall_write(NULL, &r, "enhanced_mic");
    recall_write(NULL, &(struct recall){.instance = 6}, "a/b"); /* changes no other node's note */
    recall_read(&back, "enhanced_mic");
    ck_assert(recall_same(&r, &back));
    unsetenv("XDG_RUNTIME_DIR");
    recall_write(NULL, &r, "enhanced_mic");
    recall_read(&back, "enhanced_mic");
    ck_assert_uint_eq(back.n, 0);
}
END_TEST

static void set_up(void) {
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    remove(file);
}

int main(void) {
    if (!mkdtemp(runtime))
        return 1;
    snprintf(directory, sizeof directory, "%s/primeknet", runtime);
    snprintf(file, sizeof file, "%s/enhanced_mic.streams", directory);
    mkdir(directory, 0700);
    TCase *tcase = tcase_create("recall");
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, notes_are_read_back);
    tcase_add_test(tcase, garbage);
    tcase_add_test(tcase, notes_of_older_versions_are_read);
    tcase_add_test(tcase, too_many);
    tcase_add_test(tcase, sameness);
    tcase_add_test(tcase, no_directory);
    Suite *suite = suite_create("recall");
    suite_add_tcase(suite, tcase);
    const int status = run_suite(suite, CK_FORK);
    remove(file);
    rmdir(directory);
    rmdir(runtime);
    return status;
}
