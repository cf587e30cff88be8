#include "graph/choices.h"

#include "base/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define APPLICATIONS "applications" /* the state file */

json_t *choices_read(void) {
    char path[STATE_PATH];
    json_t *const choices = json_object(), *choice;
    json_t *const file = state_path(path, APPLICATIONS) ? json_load_file(path, 0, NULL) : NULL;
    const char *application;
    json_object_foreach(file, application, choice)
        if (json_is_string(choice))
            choices_set(choices, application, json_string_value(choice));
    json_decref(file);
    return choices;
}

void choices_write(struct errands *e, const json_t *choices) {
    char path[STATE_PATH];
    char *const text = state_path(path, APPLICATIONS) ? json_dumps(choices, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    if (text)
        errands_write(e, path, text);
    free(text);
}

const char *choices_find(const json_t *choices, const char *application) {
    return json_string_value(json_object_get(choices, application));
}

int choices_set(json_t *choices, const char *application, const char *choice) {
    if (strcmp(choice, CHOICE_AUTO) == 0)
        json_object_del(choices, application);
    else if (strcmp(choice, CHOICE_ON) != 0 && strcmp(choice, CHOICE_OFF) != 0)
        return -EINVAL;
    else if (json_object_set_new(choices, application, json_string(choice)) < 0)
        return -ENOMEM;
    return 0;
}
