/* choices.h - which applications people want on Enhanced Mic or away from it, remembered in the state file
 * "applications".
 *
 * An object of jansson: the application's name as mirror_application gives it, and CHOICE_ON or CHOICE_OFF. Any
 * thread. */
#ifndef PRIMEKNET_CHOICES_H
#define PRIMEKNET_CHOICES_H

#include "base/errands.h"

#include <jansson.h>

#define CHOICE_ON "on"
#define CHOICE_OFF "off"
#define CHOICE_AUTO "auto" /* none: the application records what it asks for */

/* The caller owns what it returns: an empty object if there is no file or it is unusable; NULL: no memory. */
json_t *choices_read(void);
void choices_write(struct errands *e, const json_t *choices);

/* CHOICE_ON or CHOICE_OFF; NULL: none. */
const char *choices_find(const json_t *choices, const char *application);
/* -EINVAL: that is no choice; -ENOMEM. */
int choices_set(json_t *choices, const char *application, const char *choice);

#endif
