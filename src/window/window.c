#include "config.h"

#include "window/window.h"

#include "window/applications.h"
#include "window/findings.h"
#include "window/link.h"
#include "window/setting.h"
#include "window/spectrum.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

enum { LEVELS_MS = 150, METER_DB = 60 };
enum { STRENGTH, FLOOR, LOW_CUT, ECHO_CANCEL, MICROPHONE, MODEL, ENGINE, SPEAKER, N_SETTINGS };

struct _PrimeknetWindow {
    AdwApplicationWindow parent;
    AdwToastOverlay *toasts;
    AdwStatusPage *away;
    GtkWidget *present;
    AdwActionRow *switch_row, *recorders_row;
    GtkSwitch *enhances, *echo, *own;
    GtkLevelBar *before, *after, *voice;
    GtkLabel *before_text, *after_text, *voice_text, *noise_text, *delay_text;
    PrimeknetSpectrum *spectrum;
    PrimeknetApplications *applications;
    AdwActionRow *strength_row, *floor_row, *low_cut_row, *echo_row, *microphone, *own_row, *model, *engine, *speaker;
    GtkRange *strength, *floor, *low_cut;
    struct setting settings[N_SETTINGS];
    json_t *status;      /* the last that was told, or NULL */
    gboolean filling;    /* a switch is being changed, not by the user */
    gboolean asking;     /* for levels */
    unsigned owning;     /* requests for a profile that are not answered yet */
    guint next_levels;
};

G_DEFINE_FINAL_TYPE(PrimeknetWindow, window, ADW_TYPE_APPLICATION_WINDOW)

static void say(PrimeknetWindow *self, const char *text) {
    g_autofree char *escaped = g_markup_escape_text(text, -1);
    adw_toast_overlay_add_toast(self->toasts, adw_toast_new(escaped));
}

/* ---- levels: asked for while somebody records and the window is drawn -------------------------------------------- */

static void show_level(GtkLevelBar *bar, GtkLabel *label, const json_t *status, const char *key) {
    const json_t *level = json_object_get(status, key);
    g_autofree char *text = json_is_number(level) ? g_strdup_printf(_("%.0f dBFS"), json_number_value(level))
                                                  : g_strdup(level ? _("silence") : "");
    gtk_level_bar_set_value(bar, json_is_number(level) ? CLAMP(json_number_value(level) + METER_DB, 0, METER_DB) : 0);
    gtk_label_set_text(label, text);
}

static void show_voice(PrimeknetWindow *self, const json_t *status) {
    const json_t *voice = json_object_get(status, "voice");
    g_autofree char *text = g_strdup_printf(_("%.0f %%"), 100 * json_number_value(voice));
    gtk_level_bar_set_value(self->voice, json_number_value(voice));
    gtk_label_set_text(self->voice_text, json_is_number(voice) ? text : "");
}

/* level_in_db and its like are there while somebody records. */
static void show_sound(PrimeknetWindow *self, const json_t *status) {
    const json_t *reduction = json_object_get(status, "noise_reduction_db");
    g_autofree char *noise = g_strdup_printf(_("%.0f dB"), fmax(0, json_number_value(reduction)));
    g_autofree char *delay = g_strdup_printf(_("%.1f ms"), number_of(status, "delay_ms"));
    show_level(self->before, self->before_text, status, "level_in_db");
    show_level(self->after, self->after_text, status, "level_out_db");
    show_voice(self, status);
    gtk_label_set_text(self->noise_text, json_is_number(reduction) ? noise : "–");
    gtk_label_set_text(self->delay_text, number_of(status, "delay_ms") > 0 ? delay : "–");
    spectrum_show(self->spectrum, status);
}

static void on_levels(gpointer data, json_t *answer, const char *error) {
    PrimeknetWindow *self = data;
    (void)error; /* whoever watches is told that too */
    self->asking = FALSE;
    if (answer && self->status)
        show_sound(self, answer);
    g_object_unref(self);
}

static gboolean ask_levels(gpointer data) {
    PrimeknetWindow *self = data;
    self->next_levels = 0;
    self->asking = TRUE;
    link_ask(json_pack("{s:s, s:b}", "command", "status", "bands", TRUE), on_levels, g_object_ref(self));
    return G_SOURCE_REMOVE;
}

/* A window that nobody sees is not drawn, and so asks no more. */
static void on_drawn(PrimeknetWindow *self) {
    if (!self->asking && !self->next_levels && json_object_get(self->status, "level_in_db"))
        self->next_levels = g_timeout_add(LEVELS_MS, ask_levels, self);
}

/* ---- what the daemon is doing ------------------------------------------------------------------------------------ */

static const char *name_of_state(const char *state) {
    static const struct {
        const char *state, *name;
    } names[] = {
        {"no PipeWire", N_("Waiting for PipeWire")},
        {"no microphone", N_("There is no microphone")},
        {"idle", N_("Idle: nobody records")},
        {"enhancing", N_("Enhancing")},
        {"waiting for sound", N_("Waiting for sound from the microphone")},
        {"bypassed", N_("Bypassed: the microphone unchanged")},
        {"engine lost", N_("The engine failed: the microphone unchanged")},
        {"no output", N_("There is no output")},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (strcmp(names[i].state, state) == 0)
            return _(names[i].name);
    return state;
}

static const json_t *find_speaker(const json_t *status) {
    const json_t *stream;
    size_t i;
    json_array_foreach(json_object_get(status, "streams"), i, stream)
        if (strcmp(text_of(stream, "kind"), "speaker") == 0)
            return stream;
    return NULL;
}

static char *describe_speaker(const json_t *status) {
    const json_t *speaker = find_speaker(status), *players = json_object_get(speaker, "players");
    g_autofree char *names = link_join(players, "");
    if (!speaker)
        return g_strdup("");
    if (json_array_size(players) == 0)
        return g_strdup(_("Nobody plays"));
    return g_strdup_printf(_("%s, played to by %s, delay %.1f ms"), name_of_state(text_of(speaker, "state")), names,
                           number_of(speaker, "delay_ms"));
}

static void show_settings(PrimeknetWindow *self) {
    const json_t *status = self->status;
    const char *problem = text_of(status, "problem");
    gboolean swapping = json_is_true(json_object_get(status, "swapping"));
    g_autofree char *network = g_strdup_printf(swapping ? _("%s on %s, loading another") : _("%s on %s"),
                                               text_of(status, "model"), text_of(status, "engine"));
    g_autofree char *speaker = describe_speaker(status);
    for (int i = STRENGTH; i <= LOW_CUT; i++)
        setting_show(&self->settings[i], status, "");
    setting_show(&self->settings[ECHO_CANCEL], status, _("Removes what the loudspeakers play"));
    setting_show(&self->settings[MICROPHONE], status, text_of(json_object_get(status, "microphone"), "description"));
    setting_show(&self->settings[MODEL], status, network);
    setting_show(&self->settings[ENGINE], status, problem);
    setting_show(&self->settings[SPEAKER], status, speaker);
}

static void offer_microphones(PrimeknetWindow *self) {
    g_autoptr(GStrvBuilder) values = g_strv_builder_new(), titles = g_strv_builder_new();
    const json_t *microphone;
    size_t i;
    g_strv_builder_add(values, "default");
    g_strv_builder_add(titles, _("The system's default"));
    json_array_foreach(json_object_get(self->status, "microphones"), i, microphone) {
        g_strv_builder_add(values, text_of(microphone, "name"));
        g_strv_builder_add(titles, text_of(microphone, "description"));
    }
    g_auto(GStrv) v = g_strv_builder_end(values), t = g_strv_builder_end(titles);
    setting_offer(&self->settings[MICROPHONE], (const char *const *)v, (const char *const *)t);
}

/* Turns a switch as if not by the user. */
static void turn(PrimeknetWindow *self, GtkSwitch *toggle, gboolean on) {
    self->filling = TRUE;
    setting_turn(toggle, on);
    self->filling = FALSE;
}

static void show_switch(PrimeknetWindow *self) {
    turn(self, self->enhances, !json_is_true(json_object_get(self->status, "bypass")));
}

/* A profile that is not used is one all the same. */
static void show_profile(PrimeknetWindow *self, const json_t *status) {
    const char *microphone = text_of(json_object_get(status, "microphone"), "description");
    const char *profile = text_of(status, "profile"), *refused = text_of(status, "profile_refused");
    g_autofree char *own = g_strdup_printf(_("%s has settings of its own"), microphone);
    const char *none = _("Strength, floor, low cut and network are the same for all microphones");
    gtk_widget_set_sensitive(GTK_WIDGET(self->own_row), microphone[0] != '\0');
    adw_action_row_set_subtitle(self->own_row, refused[0] ? refused : profile[0] ? own : none);
    if (!self->owning) /* another engine may be loaded for it first */
        turn(self, self->own, profile[0] || refused[0]);
}

void window_tell(PrimeknetWindow *self, json_t *status, const char *why_none) {
    json_decref(self->status);
    self->status = json_incref(status);
    gtk_widget_set_visible(GTK_WIDGET(self->away), !status);
    gtk_widget_set_visible(self->present, !!status);
    if (!status) {
        adw_status_page_set_description(self->away, why_none);
        return;
    }
    g_autofree char *recorders = link_join(json_object_get(status, "recorders"), _("nobody"));
    adw_action_row_set_subtitle(self->switch_row, name_of_state(text_of(status, "state")));
    adw_action_row_set_subtitle(self->recorders_row, recorders);
    show_switch(self);
    show_profile(self, status);
    show_sound(self, status);
    applications_show(self->applications, status);
    offer_microphones(self);
    show_settings(self);
}

/* ---- what the user does ------------------------------------------------------------------------------------------ */

static void on_refused(gpointer data, const char *why) {
    PrimeknetWindow *self = data;
    say(self, why);
    if (self->status)
        show_settings(self);
}

static void on_bypassed(gpointer data, json_t *answer, const char *error) {
    PrimeknetWindow *self = data;
    (void)answer;
    if (error) {
        say(self, error);
        show_switch(self);
    }
    g_object_unref(self);
}

static void on_switch(PrimeknetWindow *self) {
    const char *bypass = gtk_switch_get_active(self->enhances) ? "off" : "on";
    if (!self->filling)
        link_ask(json_pack("{s:s, s:s}", "command", "bypass", "state", bypass), on_bypassed, g_object_ref(self));
}

static void on_owned(gpointer data, json_t *answer, const char *error) {
    PrimeknetWindow *self = data;
    self->owning--;
    if (error)
        say(self, error);
    show_profile(self, error ? self->status : answer);
    g_object_unref(self);
}

static void on_own(PrimeknetWindow *self) {
    const char *own = gtk_switch_get_active(self->own) ? "on" : "off";
    if (self->filling)
        return;
    self->owning++;
    link_ask(json_pack("{s:s, s:s}", "command", "profile", "state", own), on_owned, g_object_ref(self));
}

static void on_done(gpointer data, const char *problem) {
    PrimeknetWindow *self = data;
    if (problem)
        say(self, problem);
    g_object_unref(self);
}

static void start(GtkWidget *widget, const char *action, GVariant *parameter) {
    (void)action, (void)parameter;
    findings_carry_out("systemctl --user start primeknet", on_done, g_object_ref(widget));
}

static void check(GtkWidget *widget, const char *action, GVariant *parameter) {
    (void)action, (void)parameter;
    findings_open(GTK_WINDOW(widget));
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void open_settings(PrimeknetWindow *self) {
    static const char *const speakers[] = {"off", "default", NULL};
    static const char *const models[] = {"auto", "small", "base", "large", NULL};
    static const char *const engines[] = {"auto", "cpu", "cuda", NULL};
    const char *speaker_titles[] = {_("Off"), _("The system's output"), NULL};
    const char *model_titles[] = {_("Automatic"), "small", "base", "large", NULL};
    const char *engine_titles[] = {_("Automatic"), _("Processor"), _("NVIDIA GPU"), NULL};
    const struct setting settings[N_SETTINGS] = {
        [STRENGTH] = {.name = "strength", .row = self->strength_row, .scale = self->strength, .format = "%.2f"},
        [FLOOR] = {.name = "floor_db", .row = self->floor_row, .scale = self->floor, .format = _("%.0f dB"),
                   .least = "off"},
        [LOW_CUT] = {.name = "low_cut_hz", .row = self->low_cut_row, .scale = self->low_cut, .format = _("%.0f Hz"),
                     .least = "0"},
        [ECHO_CANCEL] = {.name = "echo_cancel", .row = self->echo_row, .toggle = self->echo},
        [MICROPHONE] = {.name = "microphone", .row = self->microphone},
        [MODEL] = {.name = "model", .row = self->model},
        [ENGINE] = {.name = "engine", .row = self->engine},
        [SPEAKER] = {.name = "speaker", .row = self->speaker},
    };
    for (int i = 0; i < N_SETTINGS; i++) {
        self->settings[i] = settings[i];
        self->settings[i].refused = on_refused;
        self->settings[i].data = self;
        setting_open(&self->settings[i]);
    }
    setting_offer(&self->settings[MODEL], models, model_titles);
    setting_offer(&self->settings[ENGINE], engines, engine_titles);
    setting_offer(&self->settings[SPEAKER], speakers, speaker_titles);
}

static void window_class_init(PrimeknetWindowClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    g_type_ensure(APPLICATIONS_TYPE);
    g_type_ensure(SPECTRUM_TYPE);
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/window.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetWindow, child)
    BIND(toasts), BIND(away), BIND(present), BIND(switch_row), BIND(recorders_row), BIND(enhances);
    BIND(before), BIND(after), BIND(voice), BIND(before_text), BIND(after_text), BIND(voice_text);
    BIND(noise_text), BIND(delay_text), BIND(spectrum), BIND(applications);
    BIND(strength_row), BIND(floor_row), BIND(low_cut_row), BIND(strength), BIND(floor), BIND(low_cut);
    BIND(echo_row), BIND(echo), BIND(own_row), BIND(own);
    BIND(microphone), BIND(model), BIND(engine), BIND(speaker);
#undef BIND
    gtk_widget_class_bind_template_callback(widget, say);
    gtk_widget_class_bind_template_callback(widget, on_switch);
    gtk_widget_class_bind_template_callback(widget, on_own);
    gtk_widget_class_bind_template_callback(widget, on_drawn);
    gtk_widget_class_install_action(widget, "win.start", NULL, start);
    gtk_widget_class_install_action(widget, "win.check", NULL, check);
}

static void window_init(PrimeknetWindow *self) {
    gtk_widget_init_template(GTK_WIDGET(self));
    GtkLevelBar *const bars[] = {self->before, self->after, self->voice};
    for (size_t i = 0; i < G_N_ELEMENTS(bars); i++) { /* much is neither good nor bad */
        gtk_level_bar_remove_offset_value(bars[i], GTK_LEVEL_BAR_OFFSET_LOW);
        gtk_level_bar_remove_offset_value(bars[i], GTK_LEVEL_BAR_OFFSET_HIGH);
        gtk_level_bar_remove_offset_value(bars[i], GTK_LEVEL_BAR_OFFSET_FULL);
    }
    open_settings(self);
}

PrimeknetWindow *window_new(void) {
    return g_object_new(WINDOW_TYPE, NULL);
}
