/* err.h - one line that tells the user what is wrong with an input: which file, and which line or field.
 *
 * Functions that read anything from outside return 0 or a negative errno and, on failure, write the line here. They
 * never print; the calling program decides where the line goes. */
#ifndef PRIMEKNET_ERR_H
#define PRIMEKNET_ERR_H

/* The same for programs, which may say it in another language. Texts are constants; "" or NULL: not told. */
struct err_about {
    const char *code;    /* what is wrong: a word that stays the same */
    const char *setting; /* of what */
    const char *meant;   /* what `word` was probably to be */
    char word[41];       /* the user's */
    int line;            /* of the settings file; 0: not told */
};

struct err {
    char text[512];
    struct err_about about; /* {0} but from functions that say so */
};

/* Writes the line, cut if it is too long, and returns `code`, so that a caller can write "return err_set(err, -EINVAL,
 * ...)". err may be NULL. */
int err_set(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds what the line that was just written is about: "return err_about(err, err_set(err, ...), about)". */
int err_about(struct err *err, int code, struct err_about about);

#endif
