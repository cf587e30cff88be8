/* presets.h - named sets of the settings that say how the network's gains are applied. presets.c has the only table;
 * what each does to speech and noise is measured in docs/quality.md.
 *
 * Any thread. */
#ifndef PRIMEKNET_PRESETS_H
#define PRIMEKNET_PRESETS_H

#define PRESET_DEFAULT "balanced" /* has the defaults of these settings */
#define PRESET_NONE "custom"      /* what values are called that no preset has; it cannot be set */

struct preset {
    const char *name;
    double strength, floor_db, low_cut_hz; /* as in struct settings */
};

/* The i-th, from the lightest to the deepest; NULL: there are no more. */
const struct preset *preset_nth(unsigned i);
/* NULL: there is none of that name. */
const struct preset *preset_find(const char *name);
/* The name of the preset that has these values, or PRESET_NONE. */
const char *preset_name(double strength, double floor_db, double low_cut_hz);

#endif
