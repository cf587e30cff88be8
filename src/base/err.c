#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

int err_set(struct err *err, int code, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->about = (struct err_about){0};
    }
    return code;
}

int err_about(struct err *err, int code, struct err_about about) {
    if (err)
        err->about = about;
    return code;
}
