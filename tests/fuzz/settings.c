/* Settings: any text gives settings that can be written and read again, or a one-line error. Saving a setting changes
 * only this one, and never the user's file.
 *
 * A byte: which allocation fails. A byte: the setting to set; its highest bit: also save it; the next bit: there is a
 * saved file already. A byte: the length of the new value, which follows; then the saved file, if any, after its length
 * in two bytes. The rest is the user's file. */
#include "config.h"

#include "fuzz.h"

#include "base/file.h"
#include "control/presets.h"
#include "daemon/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *__lsan_default_suppressions(void);

/* libconfig 1.5 leaks the string that it was reading at a syntax error. */
const char *__lsan_default_suppressions(void) {
    return "leak:libconfig.so";
}

static void check_message(const struct err *err) {
    fuzz_check(*err->text);
    for (const char *c = err->text; *c; c++)
        fuzz_check((unsigned char)*c >= ' ');
}

/* The preset and its settings, which come first, change each other. */
static bool changes(int setting, int other) {
    return setting == other || (setting <= SETTING_low_cut_hz && other == SETTING_preset) ||
           (setting == SETTING_preset && other <= SETTING_low_cut_hz);
}

static void same_but(const struct settings *a, const struct settings *b, int setting) {
    char x[1024], y[1024];
    for (int i = 0; i < N_SETTINGS; i++) {
        settings_text(a, i, x, sizeof x);
        settings_text(b, i, y, sizeof y);
        fuzz_check((setting >= 0 && changes(setting, i)) || strcmp(x, y) == 0);
    }
}

/* A value that is printed can be set again, and means the same. */
static void show_and_set(const struct settings *s) {
    for (int i = 0; i < N_SETTINGS; i++) {
        struct settings copy = *s;
        struct err err = {0};
        char text[1024];
        settings_text(s, i, text, sizeof text);
        const bool settable = i != SETTING_preset || strcmp(text, PRESET_NONE) != 0;
        fuzz_check((settings_set(&copy, i, text, &err) == 0) == settable);
        same_but(s, &copy, -1);
        fuzz_check(settings_find(settings_name(i), NULL) == i);
    }
}

static void put(const char *file, const struct fuzz_input *in) {
    FILE *f = fopen(file, "wb");
    fuzz_check(f && fwrite(in->data, 1, in->size, f) == in->size);
    fuzz_check(fclose(f) == 0);
}

static void check_content(const char *file, const struct fuzz_input *in) {
    char *text = NULL;
    size_t n = 0;
    fuzz_check(file_read(&text, &n, file, 65536, NULL) == 0);
    fuzz_check(n == in->size && memcmp(text, in->data, n) == 0);
    free(text);
}

/* saved: what was saved before, or NULL. */
static void save(const struct fuzz_input *in, const struct fuzz_input *saved, int setting, const char *value,
                 unsigned fail) {
    char file[512], saved_file[512];
    struct settings before, after, now, without, what;
    struct err err = {0};
    snprintf(file, sizeof file, "%s/primeknet.conf", fuzz_directory());
    snprintf(saved_file, sizeof saved_file, "%s/primeknet-saved.conf", fuzz_directory());
    put(file, in);
    if (saved)
        put(saved_file, saved);
    int code = settings_load(&before, file, &err);
    if (code)
        check_message(&err);
    now = before;
    if (code == 0 && settings_set(&now, setting, value, &err) == 0) {
        fuzz_fail_allocation(fail);
        code = settings_save(&what, &now, file, -1, setting, &err);
        fuzz_fail_allocation(0);
        fuzz_check(settings_load(&after, file, &err) == 0);
        if (code) {
            same_but(&before, &after, -1);
            if (saved)
                check_content(saved_file, saved);
        } else {
            same_but(&now, &after, -1);
            same_but(&before, &after, setting);
            settings_note_saved(&now, &what);
            fuzz_check(now.live == 0 && memcmp(now.saved_lines, after.saved_lines, sizeof now.saved_lines) == 0);
            fuzz_check(settings_load_without(&without, file, setting, &err) == 0);
            settings_take(&now, &without, setting);
            same_but(&without, &now, -1);
            fuzz_check(settings_unsave(&what, file, setting, &err) == 0);
            fuzz_check(settings_load(&after, file, &err) == 0);
            same_but(&without, &after, -1);
        }
    }
    check_content(file, in);
    unlink(file);
    unlink(saved_file);
    fuzz_check(fuzz_n_files() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    const unsigned fail = fuzz_byte(&in), what = fuzz_byte(&in), length = fuzz_byte(&in);
    const int setting = (int)((what & 63) % N_SETTINGS);
    char value[256];
    const size_t n_value = length < in.size ? length : in.size;
    memcpy(value, in.data, n_value);
    value[n_value] = '\0';
    in.data += n_value;
    in.size -= n_value;
    const size_t n_saved = what & 64 ? fuzz_short(&in) : 0;
    const struct fuzz_input saved = {in.data, n_saved < in.size ? n_saved : in.size};
    in.data += saved.size;
    in.size -= saved.size;
    if (in.size > 65536)
        return 0;

    struct settings s, untouched;
    struct err err = {0};
    memset(&s, 'x', sizeof s);
    untouched = s;
    char *text = malloc(in.size + 1); /* of its own, so that reading past its end is seen */
    memcpy(text, in.data, in.size);
    text[in.size] = '\0';
    fuzz_fail_allocation(fail);
    const int code = settings_parse(&s, text, in.size, "FILE", &err);
    fuzz_fail_allocation(0);
    free(text);
    if (code) {
        check_message(&err);
        fuzz_check(memcmp(&s, &untouched, sizeof s) == 0);
    } else {
        show_and_set(&s);
        struct settings next = s;
        if (settings_set(&next, setting, value, &err))
            same_but(&s, &next, -1);
        else
            show_and_set(&next);
    }
    if (what & 128)
        save(&in, what & 64 ? &saved : NULL, setting, value, fail);
    return 0;
}
