#include "config.h"

#include "window/window.h"

#include "window/advanced.h"
#include "window/applications.h"
#include "window/command.h"
#include "window/findings.h"
#include "window/link.h"
#include "window/microphone.h"
#include "window/setting.h"
#include "window/sound.h"
#include "window/spectrum.h"
#include "window/state.h"
#include "window/system.h"
#include "window/trial.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

enum { LEVELS_MS = 150, WORSE_MS = 400 };

struct _PrimeknetWindow {
    AdwApplicationWindow parent;
    AdwToastOverlay *toasts;
    GtkRevealer *banner;
    GtkLabel *advice;
    GtkButton *remedy, *start;
    AdwStatusPage *away;
    GtkWidget *present, *spectra;
    GtkImage *icon;
    GtkLabel *line, *detail, *noise;
    PrimeknetMicrophone *microphone;
    PrimeknetTrial *trial, *trial_away;
    PrimeknetSpectrum *spectrum;
    PrimeknetApplications *applications;
    PrimeknetSound *sound;
    PrimeknetSystem *system;
    PrimeknetAdvanced *advanced;
    struct state state;
    json_t *status; /* the last status, with or without levels, or NULL */
    char *why_none;
    gint64 silent_since;      /* us: since when silence is recorded; 0: it is not */
    gint64 worse_since;       /* us: since when the state is worse than the one shown; 0: it is not */
    GFileMonitor *correcting; /* the settings file while the user corrects an error in it, or NULL */
    gboolean starting;        /* the service */
    gboolean asking;          /* for levels */
    guint next_levels;
};

G_DEFINE_FINAL_TYPE(PrimeknetWindow, window, ADW_TYPE_APPLICATION_WINDOW)

static void say(GtkWidget *widget, const char *action, GVariant *text) {
    (void)action;
    findings_say(PRIMEKNET_WINDOW(widget)->toasts, g_variant_get_string(text, NULL));
}

static void on_done(gpointer data, const char *problem) {
    g_autoptr(PrimeknetWindow) self = data;
    if (problem)
        gtk_widget_activate_action(GTK_WIDGET(self), "win.say", "s", problem);
}

static void carry_out(PrimeknetWindow *self, const char *command) {
    command_run(command, on_done, g_object_ref(self));
}

/* ---- does it work? ----------------------------------------------------------------------------------------------- */

static double silence(PrimeknetWindow *self) {
    const gint64 now = g_get_monotonic_time();
    if (!json_is_null(json_object_get(self->status, "level_in_db")))
        self->silent_since = 0;
    else if (!self->silent_since)
        self->silent_since = now;
    return self->silent_since ? (double)(now - self->silent_since) / G_USEC_PER_SEC : 0;
}

static void show_look(PrimeknetWindow *self) {
    static const char *const classes[] = {
        [LOOK_WORKING] = "success", [LOOK_RESTING] = "dim-label", [LOOK_WARNING] = "warning", [LOOK_BROKEN] = "error"};
    gtk_image_set_from_icon_name(self->icon, self->state.icon);
    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++)
        gtk_widget_remove_css_class(GTK_WIDGET(self->icon), classes[i]);
    gtk_widget_add_css_class(GTK_WIDGET(self->icon), classes[self->state.look]);
}

/* Cancels announcing a banner that is hidden again. */
static void on_banner(PrimeknetWindow *self) {
    gtk_widget_set_visible(GTK_WIDGET(self->banner),
                           self->state.advice || gtk_revealer_get_child_revealed(self->banner));
}

/* Keeps a banner's text while it is being hidden. */
static void show_banner(PrimeknetWindow *self) {
    const struct state *s = &self->state;
    on_banner(self);
    gtk_revealer_set_reveal_child(self->banner, s->advice != NULL);
    if (!s->advice)
        return;
    gtk_label_set_text(self->advice, s->advice);
    gtk_widget_set_visible(GTK_WIDGET(self->remedy), s->button != NULL);
    if (s->button)
        gtk_button_set_label(self->remedy, s->button);
}

static gboolean show_state_later(gpointer data);

/* Whether the state is worse than the one shown, but only for a moment: while the microphone changes, there seems to be
 * none. */
static gboolean may_pass(PrimeknetWindow *self, const struct state *next) {
    const gint64 now = g_get_monotonic_time();
    if (!self->status || !self->state.line || next->look <= self->state.look) {
        self->worse_since = 0;
        return FALSE;
    }
    if (self->worse_since)
        return now - self->worse_since < WORSE_MS * 1000;
    self->worse_since = now;
    g_timeout_add(WORSE_MS + 1, show_state_later, g_object_ref(self));
    return TRUE;
}

static void show_state(PrimeknetWindow *self) {
    struct state next;
    const struct state_beside beside = {
        .why_none = self->why_none ? self->why_none : "",
        .set_up = system_is_set_up(self->system),
        .silent_s = silence(self),
        .no_systemd = !system_has_systemd(self->system),
    };
    state_of(self->status, &beside, &next);
    if (may_pass(self, &next)) {
        state_clear(&next);
        return;
    }
    state_clear(&self->state);
    self->state = next;
    adw_status_page_set_icon_name(self->away, self->state.icon);
    adw_status_page_set_title(self->away, self->state.line);
    adw_status_page_set_description(self->away, self->state.detail);
    gtk_label_set_text(self->line, self->state.line);
    gtk_label_set_text(self->detail, self->state.detail);
    gtk_widget_set_visible(GTK_WIDGET(self->detail), self->state.detail[0] != '\0');
    show_look(self);
    show_banner(self);
    if (self->state.remedy != REMEDY_OPEN)
        g_clear_object(&self->correcting);
}

static gboolean show_state_later(gpointer data) {
    g_autoptr(PrimeknetWindow) self = data;
    show_state(self);
    return G_SOURCE_REMOVE;
}

/* ---- levels: requested while an application records and the window is drawn ------------------------------------- */

/* level_in_db etc. are present while somebody records. */
static void show_sound(PrimeknetWindow *self) {
    const json_t *status = self->status, *reduction = json_object_get(status, "noise_reduction_db");
    g_autofree char *noise = g_strdup_printf(_("%.0f dB"), fmax(0, json_number_value(reduction)));
    gtk_label_set_text(self->noise, json_is_number(reduction) ? noise : "–");
    gtk_widget_set_visible(self->spectra, json_object_get(status, "level_in_db") != NULL);
    spectrum_show(self->spectrum, status);
    microphone_show_level(self->microphone, status);
    advanced_show_delay(self->advanced, status);
    trial_tell(self->trial, status);
    show_state(self);
}

static void on_levels(gpointer data, json_t *answer, const char *error) {
    g_autoptr(PrimeknetWindow) self = data;
    (void)error; /* the watching connection receives that, too */
    self->asking = FALSE;
    if (!answer || !self->status)
        return;
    json_decref(self->status);
    self->status = json_incref(answer);
    show_sound(self);
}

static gboolean ask_levels(gpointer data) {
    PrimeknetWindow *self = data;
    self->next_levels = 0;
    self->asking = TRUE;
    link_ask(json_pack("{s:s, s:b}", "command", COMMAND_STATUS, "bands", TRUE), on_levels, g_object_ref(self));
    return G_SOURCE_REMOVE;
}

/* An invisible window is not drawn, and so sends no further requests. */
static void on_drawn(PrimeknetWindow *self) {
    if (!self->asking && !self->next_levels && json_object_get(self->status, "level_in_db"))
        self->next_levels = g_timeout_add(LEVELS_MS, ask_levels, self);
}

/* ---- what the daemon is doing ------------------------------------------------------------------------------------ */

static void show_service(PrimeknetWindow *self) {
    const gboolean there = self->status != NULL;
    if (gtk_widget_get_visible(self->present) == there)
        return;
    state_clear(&self->state); /* that belonged to the other page */
    gtk_widget_set_visible(GTK_WIDGET(self->away), !there);
    gtk_widget_set_visible(self->present, there);
    system_look(self->system);
}

void window_tell(PrimeknetWindow *self, json_t *status, const char *why_none) {
    json_decref(self->status);
    self->status = json_incref(status);
    g_free(self->why_none);
    self->why_none = g_strdup(why_none);
    show_service(self);
    if (!status) {
        trial_tell(self->trial_away, NULL);
        trial_tell(self->trial, NULL);
        show_state(self);
        return;
    }
    microphone_show(self->microphone, status);
    applications_show(self->applications, status);
    sound_show(self->sound, status);
    system_show(self->system, status);
    advanced_show(self->advanced, status);
    show_sound(self);
}

/* ---- what the user does ------------------------------------------------------------------------------------------ */

static void check(GtkWidget *widget, const char *action, GVariant *parameter) {
    (void)action, (void)parameter;
    findings_open(GTK_WINDOW(widget));
}

static void on_corrected(PrimeknetWindow *self, GFile *file, GFile *other, GFileMonitorEvent event) {
    (void)file, (void)other;
    if (event == G_FILE_MONITOR_EVENT_CHANGES_DONE_HINT)
        carry_out(self, system_has_systemd(self->system) ? "systemctl --user reload primeknet" : "primeknet setup");
}

/* Opens the settings file for editing; on_corrected puts each saved change into force. */
static void open_settings(PrimeknetWindow *self) {
    g_autoptr(GFile) file = g_file_new_for_path(self->state.argument);
    g_autofree char *uri = g_file_get_uri(file);
    gtk_show_uri(GTK_WINDOW(self), uri, GDK_CURRENT_TIME);
    g_clear_object(&self->correcting);
    self->correcting = g_file_monitor_file(file, G_FILE_MONITOR_NONE, NULL, NULL);
    if (self->correcting)
        g_signal_connect_swapped(self->correcting, "changed", G_CALLBACK(on_corrected), self);
}

static void on_remedy(PrimeknetWindow *self) {
    if (self->state.remedy == REMEDY_COMMAND)
        carry_out(self, self->state.argument);
    else if (self->state.remedy == REMEDY_OPEN)
        open_settings(self);
    else
        findings_open(GTK_WINDOW(self));
}

static void show_start(PrimeknetWindow *self) {
    gtk_widget_action_set_enabled(GTK_WIDGET(self), "win.start", !self->starting);
    setting_label(self->start, self->starting ? _("Starting…") : _("_Start"));
}

static void on_started(gpointer data, const char *problem) {
    PrimeknetWindow *self = data;
    self->starting = FALSE;
    show_start(self);
    system_look(self->system);
    on_done(self, problem);
}

/* Starts the service now and at every login. This first measures the computer, which takes seconds. */
static void start(GtkWidget *widget, const char *action, GVariant *parameter) {
    PrimeknetWindow *self = PRIMEKNET_WINDOW(widget);
    (void)action, (void)parameter;
    self->starting = TRUE;
    show_start(self);
    command_run("primeknet setup", on_started, g_object_ref(self));
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void window_class_init(PrimeknetWindowClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    g_type_ensure(ADVANCED_TYPE);
    g_type_ensure(APPLICATIONS_TYPE);
    g_type_ensure(MICROPHONE_TYPE);
    g_type_ensure(SOUND_TYPE);
    g_type_ensure(SPECTRUM_TYPE);
    g_type_ensure(SYSTEM_TYPE);
    g_type_ensure(TRIAL_TYPE);
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/window.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetWindow, child)
    BIND(toasts), BIND(banner), BIND(advice), BIND(remedy), BIND(start), BIND(away), BIND(present), BIND(spectra);
    BIND(icon), BIND(line), BIND(detail), BIND(noise), BIND(microphone), BIND(trial), BIND(trial_away);
    BIND(spectrum), BIND(applications), BIND(sound), BIND(system), BIND(advanced);
#undef BIND
    gtk_widget_class_bind_template_callback(widget, on_banner);
    gtk_widget_class_bind_template_callback(widget, on_drawn);
    gtk_widget_class_bind_template_callback(widget, on_remedy);
    gtk_widget_class_bind_template_callback(widget, show_state);
    gtk_widget_class_install_action(widget, "win.say", "s", say);
    gtk_widget_class_install_action(widget, "win.start", NULL, start);
    gtk_widget_class_install_action(widget, "win.check", NULL, check);
}

static void window_init(PrimeknetWindow *self) {
    gtk_widget_init_template(GTK_WIDGET(self));
    show_start(self);
    show_state(self);
}

PrimeknetWindow *window_new(void) {
    return g_object_new(WINDOW_TYPE, NULL);
}
