#include "graph/choices.h"

#include "base/file.h"
#include "base/state.h"

#include <stdlib.h>
#include <string.h>

#define APPLICATIONS "applications" /* the state file */

json_t *choices_read(void) {
    char path[STATE_PATH];
    json_t *const choices = json_object(), *file = state_path(path, APPLICATIONS) ? json_load_file(path, 0, NULL) : NULL;
    json_t *choice;
    const char *application;
    json_object_foreach(file, application, choice) {
        const char *const text = json_string_value(choice);
        if (text && (strcmp(text, "on") == 0 || strcmp(text, "off") == 0))
            json_object_set(choices, application, choice);
    }
    json_decref(file);
    return choices;
}

void choices_write(const json_t *choices) {
    char path[STATE_PATH];
    struct err err;
    char *const text = state_path(path, APPLICATIONS) ? json_dumps(choices, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    if (text)
        file_write(path, text, strlen(text), &err);
    free(text);
}

const char *choices_find(const json_t *choices, const char *application) {
    return json_string_value(json_object_get(choices, application));
}
