/* trial.h - rows to hear what Enhanced Mic does: a recording of five seconds before and after, and one's own voice
 * live. Without a daemon the recording goes through `primeknet enhance`. */
#ifndef PRIMEKNET_WINDOW_TRIAL_H
#define PRIMEKNET_WINDOW_TRIAL_H

#include <adwaita.h>
#include <jansson.h>

#define TRIAL_TYPE (trial_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetTrial, trial, PRIMEKNET, TRIAL, AdwPreferencesGroup)

/* Each status, with or without levels; NULL: no daemon. */
void trial_tell(PrimeknetTrial *self, const json_t *status);

#endif
