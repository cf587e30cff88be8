#include "config.h"

#include "window/state.h"

#include "control/client.h"
#include "window/problem.h"

#include <glib/gi18n.h>
#include <string.h>

static const double silence_s = 3; /* a recording starts with silence; with a headset it lasts seconds */

/* ---- parts of a state -------------------------------------------------------------------------------------------- */

static void look(struct state *s, enum look look, const char *icon) {
    s->look = look;
    s->icon = icon;
}

/* Takes ownership of both texts. */
static void tell(struct state *s, char *line, const char *detail) {
    s->line = line;
    s->detail = g_strdup(detail);
}

static void advise(struct state *s, char *advice, const char *button, enum remedy remedy, char *argument) {
    s->advice = advice;
    s->button = button;
    s->remedy = remedy;
    s->argument = argument;
}

static gboolean state_is(const json_t *status, const char *state) {
    return strcmp(text_of(status, "state"), state) == 0;
}

static const char *microphone_of(const json_t *status) {
    const char *name = text_of(json_object_get(status, "microphone"), "description");
    return name[0] ? name : _("the microphone");
}

char *state_recorders(const json_t *status, guint *n) {
    g_autoptr(GString) all = g_string_new(NULL);
    const json_t *recorder;
    size_t i;
    *n = 0;
    json_array_foreach(json_object_get(status, "recorders"), i, recorder)
        if (json_is_string(recorder) && strcmp(json_string_value(recorder), OWN_RECORDER) != 0)
            g_string_append_printf(all, (*n)++ ? ", %s" : "%s", json_string_value(recorder));
    return g_string_free(g_steal_pointer(&all), FALSE);
}

/* Returns an application that records the bare microphone without the user's choice, or NULL. */
static const char *bare_application(const json_t *status) {
    const json_t *application;
    size_t i;
    json_array_foreach(json_object_get(status, "applications"), i, application)
        if (!json_is_true(json_object_get(application, "enhanced")) &&
            json_array_size(json_object_get(application, "from")) > 0 &&
            strcmp(text_of(application, "choice"), "off") != 0 &&
            strcmp(text_of(application, "name"), OWN_RECORDER) != 0)
            return text_of(application, "name");
    return NULL;
}

static void advise_about_bare(struct state *s, const char *application) {
    g_autofree char *quoted = g_shell_quote(application);
    advise(s, g_strdup_printf(_("%s records the unprocessed microphone, with all its noise."), application),
           _("Remove Noise"), REMEDY_COMMAND, g_strdup_printf("primeknet app %s on", quoted));
}

/* ---- what is wrong, the worst first ------------------------------------------------------------------------------ */

/* Each returns whether it applies to the status, and then fills in the state. */

static gboolean is_away(struct state *s, const json_t *status, const struct state_beside *beside) {
    if (status)
        return FALSE;
    const gboolean ended = g_str_has_prefix(beside->why_none, "primeknetd is not running") ||
                           g_str_has_prefix(beside->why_none, "primeknetd has ended");
    look(s, LOOK_RESTING,
         ended && !beside->set_up ? "audio-input-microphone-symbolic" : "microphone-disabled-symbolic");
    if (ended && !beside->set_up)
        tell(s, g_strdup(_("A Clean Microphone")),
             _("PrimeKnet removes noise from your microphone, on this computer and for every application. Start it "
               "once; it then runs after every login."));
    else
        tell(s, g_strdup(_("Enhanced Mic Is Off")), ended ? _("The service does not run.") : beside->why_none);
    return TRUE;
}

static gboolean lacks_pipewire(struct state *s, const json_t *status) {
    if (!state_is(status, STATE_NO_PIPEWIRE))
        return FALSE;
    look(s, LOOK_BROKEN, "dialog-error-symbolic");
    tell(s, g_strdup(_("Waiting for PipeWire")), "");
    advise(s, g_strdup(_("The computer's sound service does not answer.")), _("Find Out Why"), REMEDY_CHECK, NULL);
    return TRUE;
}

static gboolean lacks_microphone(struct state *s, const json_t *status) {
    const char *chosen = text_of(json_object_get(status, "settings"), "microphone");
    if (!state_is(status, STATE_NO_MICROPHONE))
        return FALSE;
    look(s, LOOK_BROKEN, "microphone-disabled-symbolic");
    tell(s, g_strdup(_("No microphone")), "");
    if (strcmp(chosen, "default") == 0 || json_array_size(json_object_get(status, "microphones")) == 0)
        advise(s, g_strdup(_("Plug one in or switch it on; laptops may have a key for it.")), _("Find Out Why"),
               REMEDY_CHECK, NULL);
    else
        advise(s, g_strdup_printf(_("%s is missing. It is used again as soon as it is there."), chosen),
               _("Use Another"), REMEDY_COMMAND, g_strdup("primeknet use default --save"));
    return TRUE;
}

static gboolean is_silenced(struct state *s, const json_t *status) {
    const json_t *silenced = json_object_get(status, "silenced");
    const long long id = json_integer_value(json_object_get(silenced, "id"));
    const char *name = text_of(silenced, "description");
    if (!json_is_object(silenced))
        return FALSE;
    look(s, LOOK_WARNING, "microphone-sensitivity-muted-symbolic");
    if (json_is_true(json_object_get(silenced, "turned_down"))) {
        tell(s, g_strdup(_("Turned down to nothing")), "");
        advise(s, g_strdup_printf(_("The volume of %s is zero, so nobody hears you."), name), _("Turn Up"),
               REMEDY_COMMAND, g_strdup_printf("wpctl set-volume %lld 1.0", id));
    } else {
        tell(s, g_strdup(_("Muted")), "");
        advise(s, g_strdup_printf(_("%s is muted, so nobody hears you."), name), _("Unmute"), REMEDY_COMMAND,
               g_strdup_printf("wpctl set-mute %lld 0", id));
    }
    return TRUE;
}

static gboolean lost_its_engine(struct state *s, const json_t *status, const struct state_beside *beside) {
    if (!state_is(status, STATE_ENGINE_LOST))
        return FALSE;
    look(s, LOOK_BROKEN, "dialog-error-symbolic");
    tell(s, g_strdup(_("Noise is not removed: the engine has failed")), "");
    advise(s, g_strdup(_("Applications get the unprocessed microphone.")), _("Restart"), REMEDY_COMMAND,
           g_strdup(beside->no_systemd ? "primeknet setup" : "systemctl --user restart primeknet"));
    return TRUE;
}

static gboolean waits_for_sound(struct state *s, const json_t *status, const struct state_beside *beside) {
    const gboolean silent = json_is_null(json_object_get(status, "level_in_db")) && beside->silent_s >= silence_s;
    if (!silent && !state_is(status, STATE_WAITING))
        return FALSE;
    look(s, LOOK_WARNING, "microphone-sensitivity-low-symbolic");
    tell(s, g_strdup_printf(_("No sound from %s"), microphone_of(status)), "");
    advise(s,
           g_strdup(silent ? _("It sends nothing but silence. Look for a switch on it, or choose another.")
                           : _("Unplug it and plug it in again, or choose another.")),
           _("Find Out Why"), REMEDY_CHECK, NULL);
    return TRUE;
}

static gboolean has_wrong_settings(struct state *s, const json_t *status) {
    g_autofree char *refused = problem_tell_all(status, KIND_FILE, NULL);
    const json_t *settings = json_object_get(status, "settings");
    const char *saved = text_of(settings, "saved");
    const char *file = saved[0] && g_str_has_prefix(text_of(status, "refused"), saved) ? saved
                                                                                       : text_of(settings, "file");
    if (!refused)
        return FALSE;
    look(s, LOOK_WARNING, "dialog-warning-symbolic");
    tell(s, g_strdup(_("The settings file has an error")), _("Until it is corrected, other settings are in force."));
    advise(s, g_steal_pointer(&refused), file[0] ? _("Open File") : NULL, file[0] ? REMEDY_OPEN : REMEDY_NONE,
           g_strdup(file));
    return TRUE;
}

static gboolean is_bypassed(struct state *s, const json_t *status) {
    const gboolean bypass = json_is_true(json_object_get(status, "bypass"));
    if (!bypass && number_of(json_object_get(status, "settings"), "strength") > 0)
        return FALSE;
    look(s, LOOK_WARNING, "microphone-sensitivity-high-symbolic");
    tell(s, g_strdup(_("Noise is not removed")), "");
    advise(s,
           g_strdup(bypass ? _("Noise removal is switched off, so applications get the unprocessed microphone.")
                           : _("The strength is 0, so applications get the unprocessed microphone.")),
           _("Turn On"), REMEDY_COMMAND, g_strdup(bypass ? "primeknet bypass off" : "primeknet set strength 1 --save"));
    return TRUE;
}

static gboolean is_idle(struct state *s, const json_t *status) {
    const char *bare = bare_application(status);
    if (!state_is(status, STATE_IDLE))
        return FALSE;
    look(s, bare ? LOOK_WARNING : LOOK_RESTING, bare ? "dialog-warning-symbolic" : "audio-input-microphone-symbolic");
    tell(s, bare ? g_strdup_printf(_("%s hears you with noise"), bare) : g_strdup(_("Nobody is listening")),
         bare                                                 ? ""
         : json_is_true(json_object_get(status, "measuring")) ? _("Ready, and measuring this computer.")
         : json_is_true(json_object_get(status, "default"))   ? _("Ready: applications use Enhanced Mic by default.")
                                                              : _("Ready: choose Enhanced Mic in your application."));
    if (bare)
        advise_about_bare(s, bare);
    return TRUE;
}

static gboolean is_too_loud(struct state *s, const json_t *status) {
    if (!json_is_true(json_object_get(status, "clips")))
        return FALSE;
    look(s, LOOK_WARNING, "audio-volume-overamplified-symbolic");
    tell(s, g_strdup(_("Too loud: your voice is distorted")), "");
    advise(s, g_strdup(_("Turn the microphone down in the sound settings, or move away from it.")), NULL, REMEDY_NONE,
           NULL);
    return TRUE;
}

static void works(struct state *s, const json_t *status) {
    const char *bare = bare_application(status);
    guint n;
    g_autofree char *names = state_recorders(status, &n);
    look(s, LOOK_WORKING, "emblem-ok-symbolic");
    tell(s,
         n ? g_strdup_printf(ngettext("Working: %s hears you without noise", "Working: %s hear you without noise", n),
                             names)
           : g_strdup(_("Working: only this window listens")),
         "");
    if (bare)
        advise_about_bare(s, bare);
}

void state_of(const json_t *status, const struct state_beside *beside, struct state *ret) {
    *ret = (struct state){0};
    if (!is_away(ret, status, beside) && !lacks_pipewire(ret, status) && !lacks_microphone(ret, status) &&
        !is_silenced(ret, status) && !lost_its_engine(ret, status, beside) && !waits_for_sound(ret, status, beside) &&
        !has_wrong_settings(ret, status) && !is_bypassed(ret, status) && !is_idle(ret, status) &&
        !is_too_loud(ret, status))
        works(ret, status);
}

void state_clear(struct state *s) {
    g_free(s->line);
    g_free(s->detail);
    g_free(s->advice);
    g_free(s->argument);
    *s = (struct state){0};
}
