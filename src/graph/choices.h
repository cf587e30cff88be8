/* choices.h - the user's choice, per application, whether it records from Enhanced Mic. The state file "applications"
 * stores them.
 *
 * A jansson object that maps an application's name, as mirror_application returns it, to CHOICE_ON or CHOICE_OFF. Any
 * thread. */
#ifndef PRIMEKNET_CHOICES_H
#define PRIMEKNET_CHOICES_H

#include "base/errands.h"

#include <jansson.h>

#define CHOICE_ON "on"
#define CHOICE_OFF "off"
#define CHOICE_AUTO "auto" /* no choice: the application records what it requests */

/* Returns an object that the caller owns, empty if the file is missing or invalid; NULL if memory runs out. */
json_t *choices_read(void);
void choices_write(struct errands *e, const json_t *choices);

/* Returns CHOICE_ON, CHOICE_OFF or, without a choice, NULL. */
const char *choices_find(const json_t *choices, const char *application);
/* Returns 0, -EINVAL for an invalid choice, or -ENOMEM. */
int choices_set(json_t *choices, const char *application, const char *choice);

#endif
