#include "config.h"

#include "window/verdict.h"

#include "control/client.h"

#include <glib/gi18n.h>
#include <math.h>

static const double silence_db = -90;

void verdict_begin(struct verdict *v) {
    *v = (struct verdict){.loudest_db = -INFINITY, .removed_db = NAN};
}

void verdict_add(struct verdict *v, const json_t *status) {
    const json_t *level = json_object_get(status, "level_in_db");
    const json_t *removed = json_object_get(status, "noise_reduction_db");
    if (!level) /* the recorder is not linked yet */
        return;
    v->n++;
    if (json_is_number(level))
        v->loudest_db = fmax(v->loudest_db, json_number_value(level));
    if (json_is_number(removed))
        v->removed_db = json_number_value(removed);
    v->clips |= json_is_true(json_object_get(status, "clips"));
    v->speaks |= json_is_true(json_object_get(status, "voice_active"));
    v->bypass = json_is_true(json_object_get(status, "bypass"));
}

char *verdict_tell(const struct verdict *v) {
    if (v->n && v->loudest_db < silence_db)
        return g_strdup(_("No sound came from the microphone."));
    if (v->clips)
        return g_strdup(_("You were too loud, which distorts. Turn the microphone down."));
    if (v->bypass)
        return g_strdup(_("Both sound alike: noise removal is switched off."));
    if (v->n && !v->speaks)
        return g_strdup(_("No voice was heard. Speak while it records."));
    if (v->n && v->removed_db >= 1)
        return g_strdup_printf(_("Your voice was heard, and the noise behind it lowered by %.0f dB."), v->removed_db);
    if (v->n)
        return g_strdup(_("Your voice was heard. There was hardly any noise."));
    return g_strdup(_("Compare how you sound."));
}
