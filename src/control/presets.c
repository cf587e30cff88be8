#include "control/presets.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const struct preset presets[] = {
    {"natural", 0.8, -18, 70},
    {"balanced", 1, -INFINITY, 70},
    {"strong", 1, -INFINITY, 100},
};

enum { N_PRESETS = sizeof presets / sizeof *presets };

const struct preset *preset_nth(unsigned i) {
    return i < N_PRESETS ? &presets[i] : NULL;
}

const struct preset *preset_find(const char *name) {
    const struct preset *p;
    for (unsigned i = 0; (p = preset_nth(i)); i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

const char *preset_name(double strength, double floor_db, double low_cut_hz) {
    const struct preset *p;
    for (unsigned i = 0; (p = preset_nth(i)); i++)
        if (p->strength == strength && p->floor_db == floor_db && p->low_cut_hz == low_cut_hz)
            return p->name;
    return PRESET_NONE;
}
