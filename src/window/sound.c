#include "config.h"

#include "window/sound.h"

#include "control/presets.h"
#include "window/link.h"
#include "window/problem.h"
#include "window/setting.h"

#include <glib/gi18n.h>
#include <string.h>

enum { PRESET, STRENGTH, FLOOR, LOW_CUT, LEVEL, ECHO_CANCEL, N_SETTINGS };

struct _PrimeknetSound {
    AdwPreferencesGroup parent;
    AdwActionRow *preset, *level_row, *echo_row, *own_row;
    GtkRange *strength, *floor, *low_cut;
    GtkWidget *reset;
    GtkSwitch *level, *echo, *own;
    struct setting settings[N_SETTINGS];
    json_t *status;   /* the last status, or NULL */
    gboolean filling; /* the program, not the user, is setting a switch */
    guint owning;     /* pending requests for a profile */
};

G_DEFINE_FINAL_TYPE(PrimeknetSound, sound, ADW_TYPE_PREFERENCES_GROUP)

static void say(PrimeknetSound *self, const char *text) {
    gtk_widget_activate_action(GTK_WIDGET(self), "win.say", "s", text);
}

/* ---- presets ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *title, *sentence;
} presets[] = {
    {"natural", N_("Natural"), N_("Keeps a little of the room around your voice")},
    {"balanced", N_("Balanced"), N_("Removes all noise")},
    {"strong", N_("Strong"), N_("Removes all noise, and more of the rumble below voices")},
    {PRESET_NONE, N_("Custom"), N_("Your own values")},
};

static const char *title_of(const char *preset) {
    for (size_t i = 0; i < G_N_ELEMENTS(presets); i++)
        if (strcmp(presets[i].name, preset) == 0)
            return _(presets[i].title);
    return preset;
}

static const char *sentence_of(const char *preset) {
    for (size_t i = 0; i < G_N_ELEMENTS(presets); i++)
        if (strcmp(presets[i].name, preset) == 0)
            return _(presets[i].sentence);
    return "";
}

static void offer_presets(PrimeknetSound *self) {
    g_autoptr(GStrvBuilder) values = g_strv_builder_new(), titles = g_strv_builder_new();
    const struct preset *preset;
    for (unsigned i = 0; (preset = preset_nth(i)); i++) {
        g_strv_builder_add(values, preset->name);
        g_strv_builder_add(titles, title_of(preset->name));
    }
    g_auto(GStrv) v = g_strv_builder_end(values), t = g_strv_builder_end(titles);
    setting_offer(&self->settings[PRESET], (const char *const *)v, (const char *const *)t);
}

static void on_reset_done(gpointer data, json_t *answer, const char *error) {
    g_autoptr(PrimeknetSound) self = data;
    (void)answer;
    if (error)
        say(self, error);
}

static void on_reset(PrimeknetSound *self) {
    link_ask(json_pack("{s:s, s:s, s:s, s:b}", "command", COMMAND_SET, "name", "preset", "value", PRESET_DEFAULT,
                       "save", TRUE),
             on_reset_done, g_object_ref(self));
}

/* ---- what is shown ----------------------------------------------------------------------------------------------- */

static void show_settings(gpointer data) {
    PrimeknetSound *self = data;
    const json_t *settings = json_object_get(self->status, "settings");
    const char *preset = text_of(settings, "preset");
    setting_show(&self->settings[PRESET], self->status, sentence_of(preset));
    for (int i = STRENGTH; i <= LOW_CUT; i++)
        setting_show(&self->settings[i], self->status, "");
    setting_show(&self->settings[LEVEL], self->status, _("Makes quiet words as loud as the others"));
    setting_show(&self->settings[ECHO_CANCEL], self->status, _("Removes what your loudspeakers play"));
    gtk_widget_set_visible(GTK_WIDGET(self->level_row), json_object_get(settings, "level") != NULL);
    gtk_widget_set_sensitive(self->reset, strcmp(preset, PRESET_DEFAULT) != 0);
}

/* A profile that cannot be used counts, too. */
static void show_profile(PrimeknetSound *self, const json_t *status) {
    const char *microphone = text_of(json_object_get(status, "microphone"), "description");
    const char *profile = text_of(status, "profile");
    g_autofree char *refused = problem_tell_all(status, KIND_PROFILE, NULL);
    g_autofree char *own = g_strdup_printf(_("%s has settings of its own"), microphone);
    const char *none = _("All microphones share the preset and the model");
    gtk_widget_set_sensitive(GTK_WIDGET(self->own_row), microphone[0] != '\0');
    adw_action_row_set_subtitle(self->own_row, refused ? refused : profile[0] ? own : none);
    if (self->owning) /* another engine may be loaded for it first */
        return;
    self->filling = TRUE;
    setting_turn(self->own, profile[0] || refused);
    self->filling = FALSE;
}

void sound_show(PrimeknetSound *self, const json_t *status) {
    json_decref(self->status);
    self->status = json_incref((json_t *)(gpointer)status);
    show_settings(self);
    show_profile(self, status);
}

/* ---- what the user does ------------------------------------------------------------------------------------------ */

static void on_owned(gpointer data, json_t *answer, const char *error) {
    g_autoptr(PrimeknetSound) self = data;
    self->owning--;
    if (error)
        say(self, error);
    show_profile(self, error ? self->status : answer);
}

static void on_own(PrimeknetSound *self) {
    const char *own = gtk_switch_get_active(self->own) ? "on" : "off";
    if (self->filling)
        return;
    self->owning++;
    link_ask(json_pack("{s:s, s:s}", "command", COMMAND_PROFILE, "state", own), on_owned, g_object_ref(self));
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void sound_class_init(PrimeknetSoundClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/sound.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetSound, child)
    BIND(preset), BIND(level_row), BIND(echo_row), BIND(own_row), BIND(strength), BIND(floor), BIND(low_cut);
    BIND(reset), BIND(level), BIND(echo), BIND(own);
#undef BIND
    gtk_widget_class_bind_template_callback(widget, on_own);
    gtk_widget_class_bind_template_callback(widget, on_reset);
}

static void sound_init(PrimeknetSound *self) {
    gtk_widget_init_template(GTK_WIDGET(self));
    const struct setting settings[N_SETTINGS] = {
        [PRESET] = {.name = "preset", .row = self->preset, .extra_title = title_of(PRESET_NONE)},
        [STRENGTH] = {.name = "strength", .scale = self->strength, .format = "%.2f"},
        [FLOOR] = {.name = "floor_db", .scale = self->floor, .format = _("%.0f dB"), .least = "off"},
        [LOW_CUT] = {.name = "low_cut_hz", .scale = self->low_cut, .format = _("%.0f Hz"), .least = "0"},
        [LEVEL] = {.name = "level", .row = self->level_row, .toggle = self->level, .on = "auto", .off = "off"},
        [ECHO_CANCEL] = {.name = "echo_cancel", .row = self->echo_row, .toggle = self->echo},
    };
    for (int i = 0; i < N_SETTINGS; i++) {
        self->settings[i] = settings[i];
        self->settings[i].refused = show_settings;
        self->settings[i].data = self;
        setting_open(&self->settings[i]);
    }
    offer_presets(self);
}
