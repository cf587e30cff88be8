/* err.h - the one line that tells a person what is wrong with an input: which file, which line or field.
 *
 * Functions that read anything from outside return 0 or a negative errno and, on failure, leave the line here. They never
 * print: the program that called decides where the line goes. */
#ifndef PRIMEKNET_ERR_H
#define PRIMEKNET_ERR_H

struct err {
    char text[512];
};

/* Writes the line (cut if too long) and returns `code`, so that "return err_set(err, -EINVAL, ...)" reads well. err may be NULL. */
int err_set(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
