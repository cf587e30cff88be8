/* trial.h - rows to hear the effect of Enhanced Mic: a five-second recording before and after, and the user's own voice
 * live. Without a daemon, `primeknet enhance` processes the recording. */
#ifndef PRIMEKNET_WINDOW_TRIAL_H
#define PRIMEKNET_WINDOW_TRIAL_H

#include <adwaita.h>
#include <jansson.h>

#define TRIAL_TYPE (trial_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetTrial, trial, PRIMEKNET, TRIAL, AdwPreferencesGroup)

/* Passes each status, with or without levels; NULL: no daemon. */
void trial_tell(PrimeknetTrial *self, const json_t *status);

#endif
