/* content.h - writes and reads small files whole. */
#ifndef PRIMEKNET_CONTENT_H
#define PRIMEKNET_CONTENT_H

#include <check.h>
#include <stdio.h>

static inline void put_content(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    ck_assert_msg(f, "%s", path);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Returns a file's text, valid until the next call. */
static inline const char *content(const char *path) {
    static char text[70000];
    FILE *f = fopen(path, "r");
    ck_assert_msg(f, "%s", path);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

#endif
