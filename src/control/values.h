/* values.h - reads the value of a setting as people write it: in the settings files, to the daemon and as an option of
 * `primeknet enhance`. Any thread. */
#ifndef PRIMEKNET_VALUES_H
#define PRIMEKNET_VALUES_H

#include <stdbool.h>

/* Reads the value of a NUMBER of settings.def: a number in its bounds, as text_number takes it, or a word; "off", "no"
 * and "false" are the same. Returns false for any other text. */
bool value_number(int setting, const char *text, double *ret);

#endif
