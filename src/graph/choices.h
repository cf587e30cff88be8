/* choices.h - which applications people want on Enhanced Mic or away from it, remembered in the state file
 * "applications".
 *
 * An object of jansson: the application's name as mirror_application gives it, and "on" or "off". Any thread. */
#ifndef PRIMEKNET_CHOICES_H
#define PRIMEKNET_CHOICES_H

#include <jansson.h>

/* The caller owns what it returns: an empty object if there is no file or it is unusable; NULL: no memory. */
json_t *choices_read(void);
void choices_write(const json_t *choices);

/* "on" or "off"; NULL: none. */
const char *choices_find(const json_t *choices, const char *application);

#endif
