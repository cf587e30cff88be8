#include "print/enrolment.h"

#include "base/file.h"
#include "base/state.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "primeknet-my-voice-1"

enum { MOST_BYTES = 65536 };
static const double LENGTH_TOLERANCE = 1e-3;

static int place(char path[STATE_PATH], struct err *err) {
    return user_path(path, STATE_PATH, "XDG_DATA_HOME", ".local/share", "my-voice.json")
               ? 0
               : err_set(err, -ENOENT, "my-voice.json: neither XDG_DATA_HOME nor HOME says where it is");
}

static int damaged(const char *path, const char *what, struct err *err) {
    return err_set(err, -EINVAL, "%s: %s", path, what);
}

/* Reads the numbers, whose squares must add up to 1. */
static int read_print(struct enrolment *e, const json_t *numbers, const char *path, struct err *err) {
    double square = 0;
    e->size = (unsigned)json_array_size(numbers);
    if (e->size == 0 || e->size > ENROLMENT_MAX)
        return damaged(path, "'print' is not a list of 1 to 1024 numbers", err);
    for (unsigned i = 0; i < e->size; i++) {
        const json_t *number = json_array_get(numbers, i);
        if (!json_is_number(number))
            return damaged(path, "'print' has something else than numbers", err);
        e->print[i] = (float)json_number_value(number);
        square += (double)e->print[i] * e->print[i];
    }
    return fabs(square - 1) < LENGTH_TOLERANCE ? 0 : damaged(path, "'print' is not of length 1", err);
}

static int parse(struct enrolment *ret, const json_t *file, const char *path, struct err *err) {
    struct enrolment e = {0};
    const char *format = json_string_value(json_object_get(file, "format")),
               *encoder = json_string_value(json_object_get(file, "encoder"));
    if (!format || strcmp(format, FORMAT) != 0)
        return damaged(path, "'format' is not " FORMAT, err);
    if (!encoder || !*encoder || strlen(encoder) >= sizeof e.encoder)
        return damaged(path, "'encoder' is not a name of at most 63 bytes", err);
    memcpy(e.encoder, encoder, strlen(encoder) + 1);
    const int code = read_print(&e, json_object_get(file, "print"), path, err);
    if (code == 0)
        *ret = e;
    return code;
}

int enrolment_read(struct enrolment *ret, struct err *err) {
    char path[STATE_PATH], *text;
    size_t n;
    int code = place(path, err);
    if (code < 0 || (code = file_read(&text, &n, path, MOST_BYTES, err)) < 0)
        return code;
    json_t *file = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    code = json_is_object(file) ? parse(ret, file, path, err) : damaged(path, "is not a JSON object", err);
    json_decref(file);
    return code;
}

int enrolment_write(const struct enrolment *e, struct err *err) {
    char path[STATE_PATH];
    int code = place(path, err);
    if (code < 0)
        return code;
    json_t *numbers = json_array(), *file;
    for (unsigned i = 0; i < e->size; i++)
        json_array_append_new(numbers, json_real((double)e->print[i]));
    file = json_pack("{s:s, s:s, s:o}", "format", FORMAT, "encoder", e->encoder, "print", numbers);
    char *text = file ? json_dumps(file, JSON_REAL_PRECISION(9) | JSON_INDENT(1)) : NULL;
    if (!text)
        code = err_set(err, -ENOMEM, "%s: out of memory", path);
    else if (chmod(path, 0600) < 0 && errno != ENOENT && errno != ENOTDIR) /* file_write keeps an old mode */
        code = err_set(err, -errno, "%s: %s", path, strerror(errno));
    else
        code = file_write(path, text, strlen(text), err);
    free(text);
    json_decref(file);
    return code;
}

int enrolment_remove(struct err *err) {
    char path[STATE_PATH];
    if (place(path, NULL) < 0)
        return 0;
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
        return 0;
    return err_set(err, -errno, "%s: %s", path, strerror(errno));
}
