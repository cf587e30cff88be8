/* err.h - error messages: one line that says what is wrong with an input, and in which file, line or field.
 *
 * Functions that read external input return 0 or a negative errno and, on failure, write the line to a struct err. They
 * never print; the calling program decides where the line appears. */
#ifndef PRIMEKNET_ERR_H
#define PRIMEKNET_ERR_H

/* The same error for programs, which may translate it. The strings are constants; "", NULL and 0 mean unknown. */
struct err_about {
    const char *code;    /* what is wrong: a stable word, CODE_... of control/protocol.h */
    const char *why;     /* why a model is unusable: WHY_... of control/protocol.h */
    const char *setting; /* the setting that is wrong */
    const char *meant;   /* the name that the user probably meant by `word` */
    char word[41];       /* the word that the user wrote; a file's without its folder */
    int line;            /* of the settings file */
};

struct err {
    char text[512];
    struct err_about about; /* {0} unless the function documents it */
};

/* Writes the line, truncated if too long, clears `about`, and returns `code`: "return err_set(err, -EINVAL, ...)". err
 * may be NULL. */
int err_set(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Sets `about` of the line just written: "return err_about(err, err_set(err, ...), about)". */
int err_about(struct err *err, int code, struct err_about about);

#endif
