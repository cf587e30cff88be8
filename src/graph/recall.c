#include "graph/recall.h"

#include "base/state.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name with a slash, which other programs may choose, is not a file name: such a node has no file. */
static bool find_path(char ret[STATE_PATH], const char *node) {
    char file[STATE_PATH];
    snprintf(file, sizeof file, "%s.streams", node);
    return !strchr(node, '/') && user_path(ret, STATE_PATH, "XDG_RUNTIME_DIR", NULL, file);
}

void recall_read(struct recall *ret, const char *node) {
    char path[STATE_PATH];
    json_t *file = find_path(path, node) ? json_load_file(path, 0, NULL) : NULL, *entry;
    json_int_t instance = json_integer_value(json_object_get(file, "instance"));
    size_t i;
    *ret = (struct recall){.instance = instance > 0 && instance <= UINT32_MAX ? (uint32_t)instance : 0};
    json_array_foreach(json_object_get(file, "streams"), i, entry) {
        struct recall_stream s = {0};
        json_int_t serial;
        const char *target;
        int misled = 0;
        if (json_unpack(entry, "{s:I, s:s, s?b}", "serial", &serial, "target", &target, "misled", &misled) < 0 ||
            serial < 0)
            continue;
        s.serial = (uint64_t)serial;
        s.misled = misled;
        snprintf(s.target, sizeof s.target, "%s", target);
        recall_add(ret, &s);
    }
    json_decref(file);
}

void recall_write(struct errands *e, const struct recall *r, const char *node) {
    char path[STATE_PATH];
    if (!find_path(path, node))
        return;
    json_t *streams = json_array();
    for (unsigned i = 0; i < r->n; i++) /* jansson refuses a target that is not UTF-8 */
        json_array_append_new(streams, json_pack("{s:I, s:s, s:b}", "serial", (json_int_t)r->streams[i].serial,
                                                 "target", r->streams[i].target, "misled", r->streams[i].misled));
    json_t *file = json_pack("{s:I, s:o}", "instance", (json_int_t)r->instance, "streams", streams);
    char *text = file ? json_dumps(file, JSON_COMPACT) : NULL;
    if (text)
        errands_write(e, path, text);
    free(text);
    json_decref(file);
}

void recall_add(struct recall *r, const struct recall_stream *s) {
    if (r->n < RECALL_STREAMS)
        r->streams[r->n++] = *s;
}

bool recall_has(const struct recall *r, uint32_t instance, const struct recall_stream *s) {
    bool has = false;
    for (unsigned i = 0; i < r->n && r->instance == instance; i++)
        has |= r->streams[i].serial == s->serial && strcmp(r->streams[i].target, s->target) == 0 &&
               r->streams[i].misled == s->misled;
    return has;
}

bool recall_same(const struct recall *a, const struct recall *b) {
    bool same = a->instance == b->instance && a->n == b->n;
    for (unsigned i = 0; same && i < a->n; i++)
        same = recall_has(b, a->instance, &a->streams[i]);
    return same;
}
