#include "control/values.h"

#include "base/text.h"
#include "control/names.h"

#include <math.h>

static const struct {
    double least, greatest;
    const char *word, *unit;
} numbers[N_SETTINGS] = {
#define NUMBER(name, fallback, least, greatest, word, unit, allowed) [SETTING_##name] = {least, greatest, word, unit},
#define TEXT(name, size, fallback, least, greatest, fits, allowed)
#define SWITCH(name, fallback)
#include "control/settings.def"
};

static const struct {
    int setting;
    const char *word;
    double value;
} words[] = {
    {SETTING_low_cut_hz, "off", 0},
    {SETTING_level, "auto", -23},
    {SETTING_level, "on", -23},
};

bool value_number(int setting, const char *text, double *ret) {
    double number;
    bool on;
    if (text_number(text, numbers[setting].unit, &number) && number >= numbers[setting].least &&
        number <= numbers[setting].greatest) {
        *ret = number;
        return true;
    }
    if (text_switch(text, &on))
        text = on ? "on" : "off";
    if (numbers[setting].word && strcasecmp(text, numbers[setting].word) == 0) {
        *ret = -INFINITY;
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].setting == setting && strcasecmp(text, words[i].word) == 0) {
            *ret = words[i].value;
            return true;
        }
    return false;
}
