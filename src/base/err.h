/* err.h - one line that tells the user what is wrong with an input: which file, and which line or field.
 *
 * Functions that read anything from outside return 0 or a negative errno and, on failure, write the line here. They
 * never print; the calling program decides where the line goes. */
#ifndef PRIMEKNET_ERR_H
#define PRIMEKNET_ERR_H

struct err {
    char text[512];
};

/* Writes the line, cut if it is too long, and returns `code`, so that a caller can write "return err_set(err, -EINVAL,
 * ...)". err may be NULL. */
int err_set(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
