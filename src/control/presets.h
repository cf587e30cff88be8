/* presets.h - named sets of the settings that control how the network's gains are applied. presets.c has the table;
 * docs/quality.md has measurements of their effect on speech and noise.
 *
 * Any thread. */
#ifndef PRIMEKNET_PRESETS_H
#define PRIMEKNET_PRESETS_H

#define PRESET_DEFAULT "balanced" /* has these settings' default values */
#define PRESET_NONE "custom"      /* the name for values of no preset; it cannot be set */

struct preset {
    const char *name;
    double strength, floor_db, low_cut_hz; /* as in struct settings */
};

/* Returns the i-th preset, from the lightest to the strongest, or NULL after the last. */
const struct preset *preset_nth(unsigned i);
/* Returns the preset with this name, or NULL. */
const struct preset *preset_find(const char *name);
/* Returns the name of the preset with these values, or PRESET_NONE. */
const char *preset_name(double strength, double floor_db, double low_cut_hz);

#endif
