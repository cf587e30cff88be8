#include "config.h"

#include "window/trial.h"

#include "window/command.h"
#include "window/link.h"
#include "window/setting.h"
#include "window/state.h"
#include "window/verdict.h"

#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>

enum { SECONDS = 5, BEFORE = 0, AFTER = 1 };
enum { TICK_MS = 100, PATIENCE_MS = 15000, BEGUN_BYTES = 4096 };

/* Stream properties that keep the session manager from restoring a volume or device. */
#define STREAM "application.name = " OWN_RECORDER " state.restore-props = false state.restore-target = false"

struct _PrimeknetTrial {
    AdwPreferencesGroup parent;
    AdwActionRow *test_row, *listen_row;
    GtkWidget *result_row;
    GtkButton *record;
    GtkLabel *outcome;
    GtkToggleButton *before, *after, *bypass;
    GtkSwitch *listen;

    gboolean runs;        /* the daemon */
    char *microphone;     /* node.name of the current microphone, or NULL */
    gboolean transparent; /* Enhanced Mic stands in for it */
    gboolean filling;     /* the program, not the user, is changing a button */
    enum { RESTING, STARTING, RECORDING, STOPPING, ENHANCING } stage;
    guint left, timer; /* ticks until the start, then seconds of the recording, and their timer */
    char *folder;      /* paths of the recordings, or NULL */
    GSubprocess *recorders[2], *player, *loopback; /* NULL: not running */
    int playing;                                   /* BEFORE or AFTER, while there is a player */
    gboolean both;                                 /* play AFTER next */
    gboolean bypassed;                             /* from the daemon's last status */
    gboolean compares;                             /* the user has turned bypass on here */
    struct verdict verdict;
};

G_DEFINE_FINAL_TYPE(PrimeknetTrial, trial, ADW_TYPE_PREFERENCES_GROUP)

static void show(PrimeknetTrial *self);
static void play(PrimeknetTrial *self, int which);

static void say(PrimeknetTrial *self, const char *text) {
    gtk_widget_activate_action(GTK_WIDGET(self), "win.say", "s", text);
}

static char *file_of(PrimeknetTrial *self, int which) {
    return g_build_filename(self->folder, which == BEFORE ? "before.wav" : "after.wav", NULL);
}

/* Whether the callback belongs to the current process, after several clicks and ends. */
static gboolean is_over(GSubprocess **at, GObject *process) {
    if (*at != G_SUBPROCESS(process))
        return FALSE;
    g_clear_object(at);
    return TRUE;
}

static void end(GSubprocess **at) {
    if (*at)
        g_subprocess_send_signal(*at, SIGTERM);
    g_clear_object(at);
}

/* ---- playing ----------------------------------------------------------------------------------------------------- */

static void on_played(GObject *process, GAsyncResult *result, gpointer data) {
    g_autoptr(PrimeknetTrial) self = data;
    g_autofree char *problem = command_problem(G_SUBPROCESS(process), result);
    if (!is_over(&self->player, process))
        return;
    if (problem)
        say(self, problem);
    else if (self->both && self->playing == BEFORE) {
        play(self, AFTER);
        return;
    }
    self->both = FALSE;
    show(self);
}

static void play(PrimeknetTrial *self, int which) {
    g_autofree char *file = file_of(self, which);
    g_autoptr(GError) error = NULL;
    const char *const words[] = {"pw-play", "-P", "{ " STREAM " }", file, NULL};
    end(&self->player);
    self->player = command_start(words, &error);
    self->playing = which;
    if (self->player)
        g_subprocess_communicate_utf8_async(self->player, NULL, NULL, on_played, g_object_ref(self));
    else
        say(self, error->message);
    show(self);
}

static void on_play(PrimeknetTrial *self, GtkToggleButton *button) {
    if (self->filling)
        return;
    self->both = FALSE;
    if (gtk_toggle_button_get_active(button)) {
        play(self, button == self->before ? BEFORE : AFTER);
        return;
    }
    end(&self->player);
    show(self);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static void forget(PrimeknetTrial *self) {
    for (int i = 0; self->folder && i < 2; i++) {
        g_autofree char *file = file_of(self, i);
        g_unlink(file);
    }
    if (self->folder)
        g_rmdir(self->folder);
    g_clear_pointer(&self->folder, g_free);
}

static void give_up(PrimeknetTrial *self, const char *why) {
    g_clear_handle_id(&self->timer, g_source_remove);
    end(&self->recorders[BEFORE]);
    end(&self->recorders[AFTER]);
    end(&self->player);
    self->stage = RESTING;
    forget(self);
    if (why)
        say(self, why);
    show(self);
}

static void conclude(PrimeknetTrial *self) {
    g_autofree char *outcome = verdict_tell(&self->verdict);
    self->stage = RESTING;
    gtk_label_set_text(self->outcome, outcome);
    self->both = TRUE;
    play(self, BEFORE);
}

static void on_enhanced(gpointer data, const char *problem) {
    g_autoptr(PrimeknetTrial) self = data;
    if (self->stage != ENHANCING) /* cancelled meanwhile */
        return;
    if (problem)
        give_up(self, problem);
    else
        conclude(self);
}

static void enhance(PrimeknetTrial *self) {
    g_autofree char *before = file_of(self, BEFORE), *after = file_of(self, AFTER);
    g_autofree char *from = g_shell_quote(before), *to = g_shell_quote(after);
    g_autofree char *command = g_strdup_printf("primeknet enhance %s %s", from, to);
    self->stage = ENHANCING;
    show(self);
    command_run(command, on_enhanced, g_object_ref(self));
}

static void on_recorded(GObject *process, GAsyncResult *result, gpointer data) {
    g_autoptr(PrimeknetTrial) self = data;
    g_autofree char *problem = command_problem(G_SUBPROCESS(process), result), *after = NULL;
    if (!is_over(&self->recorders[BEFORE], process) && !is_over(&self->recorders[AFTER], process))
        return;
    if (self->stage == STARTING || self->stage == RECORDING) {
        give_up(self, problem ? problem : _("The recording ended early"));
        return;
    }
    if (self->recorders[BEFORE] || self->recorders[AFTER])
        return;
    after = file_of(self, AFTER);
    if (g_file_test(after, G_FILE_TEST_EXISTS))
        conclude(self);
    else
        enhance(self);
}

/* Ends the recorders; their files are complete only then. */
static void stop(PrimeknetTrial *self) {
    g_clear_handle_id(&self->timer, g_source_remove);
    self->stage = STOPPING;
    for (int i = 0; i < 2; i++)
        if (self->recorders[i])
            g_subprocess_send_signal(self->recorders[i], SIGINT);
    show(self);
}

static gboolean on_second(gpointer data) {
    PrimeknetTrial *self = data;
    if (--self->left > 0) {
        show(self);
        return G_SOURCE_CONTINUE;
    }
    self->timer = 0;
    stop(self);
    return G_SOURCE_REMOVE;
}

/* Whether each file has received sound. A Bluetooth headset takes seconds, during which the user should not speak
 * yet. */
static gboolean has_begun(PrimeknetTrial *self) {
    for (int i = 0; i < 2; i++) {
        g_autofree char *file = file_of(self, i);
        GStatBuf info;
        if (self->recorders[i] && (g_stat(file, &info) < 0 || info.st_size < BEGUN_BYTES))
            return FALSE;
    }
    return TRUE;
}

static gboolean on_tick(gpointer data) {
    PrimeknetTrial *self = data;
    const gboolean begun = has_begun(self);
    if (!begun && --self->left > 0)
        return G_SOURCE_CONTINUE;
    self->timer = 0;
    if (begun) {
        self->stage = RECORDING;
        self->left = SECONDS;
        self->timer = g_timeout_add_seconds(1, on_second, self);
        show(self);
    } else {
        give_up(self, _("No sound comes from the microphone"));
    }
    return G_SOURCE_REMOVE;
}

/* target: node.name, or NULL for the default microphone. WirePlumber puts no filter in front of the filter's own
 * streams, and it knows these by their link group. */
static gboolean start(PrimeknetTrial *self, int which, const char *target, GError **error) {
    g_autofree char *file = file_of(self, which);
    g_autofree char *to = target ? g_strdup_printf("--target=%s", target) : g_strdup("--target=auto");
    const char *const properties = which == BEFORE && self->transparent ? "{ " STREAM
                                                                          " node.link-group = enhanced_mic }"
                                                                        : "{ " STREAM " }";
    const char *const words[] = {"pw-record", "--channels=1", "--rate=48000", "-P", properties, to, file, NULL};
    self->recorders[which] = command_start(words, error);
    if (self->recorders[which])
        g_subprocess_communicate_utf8_async(self->recorders[which], NULL, NULL, on_recorded, g_object_ref(self));
    return self->recorders[which] != NULL;
}

static void record(PrimeknetTrial *self) {
    g_autoptr(GError) error = NULL;
    forget(self);
    end(&self->player);
    verdict_begin(&self->verdict);
    self->folder = g_build_filename(g_get_user_runtime_dir(), "primeknet-test-XXXXXX", NULL);
    if (!g_mkdtemp(self->folder)) {
        say(self, g_strerror(errno));
        g_clear_pointer(&self->folder, g_free);
        return;
    }
    if (!start(self, BEFORE, self->microphone, &error) || (self->runs && !start(self, AFTER, "enhanced_mic", &error))) {
        give_up(self, error->message);
        return;
    }
    self->stage = STARTING;
    self->left = PATIENCE_MS / TICK_MS;
    self->timer = g_timeout_add(TICK_MS, on_tick, self);
    show(self);
}

static void on_record(PrimeknetTrial *self) {
    if (self->stage == RESTING)
        record(self);
    else if (self->stage == STARTING)
        give_up(self, NULL);
    else if (self->stage == RECORDING)
        stop(self);
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

static void on_refused(gpointer data, json_t *answer, const char *error) {
    g_autoptr(PrimeknetTrial) self = data;
    (void)answer;
    if (error)
        say(self, error);
}

static void bypass(PrimeknetTrial *self, gboolean on) {
    self->compares = on;
    link_ask(json_pack("{s:s, s:s}", "command", COMMAND_BYPASS, "state", on ? "on" : "off"), on_refused,
             g_object_ref(self));
}

static void on_bypass(PrimeknetTrial *self) {
    if (!self->filling)
        bypass(self, gtk_toggle_button_get_active(self->bypass));
}

/* Ends the comparison together with the listening: other applications heard the bypass, too. */
static void stop_listening(PrimeknetTrial *self) {
    end(&self->loopback);
    if (self->compares && self->runs)
        bypass(self, FALSE);
    self->compares = FALSE;
    show(self);
}

static void on_loopback_end(GObject *process, GAsyncResult *result, gpointer data) {
    g_autoptr(PrimeknetTrial) self = data;
    g_autofree char *problem = command_problem(G_SUBPROCESS(process), result);
    if (!is_over(&self->loopback, process))
        return;
    if (problem)
        say(self, problem);
    stop_listening(self);
}

static void on_listen(PrimeknetTrial *self) {
    static const char *const words[] = {"pw-loopback",
                                        "-c",
                                        "1",
                                        "-m",
                                        "[ MONO ]",
                                        "--capture-props={ " STREAM
                                        " target.object = enhanced_mic node.dont-reconnect = true"
                                        " node.latency = 256/48000 }",
                                        "--playback-props={ " STREAM " node.latency = 256/48000 }",
                                        NULL};
    g_autoptr(GError) error = NULL;
    if (self->filling)
        return;
    if (!gtk_switch_get_active(self->listen)) {
        stop_listening(self);
        return;
    }
    end(&self->loopback);
    self->loopback = command_start(words, &error);
    if (self->loopback)
        g_subprocess_communicate_utf8_async(self->loopback, NULL, NULL, on_loopback_end, g_object_ref(self));
    else
        say(self, error->message);
    show(self);
}

/* ---- what is shown ----------------------------------------------------------------------------------------------- */

static char *describe_test(const PrimeknetTrial *self) {
    switch (self->stage) {
    case STARTING: return g_strdup(_("Starting the microphone…"));
    case RECORDING:
        return g_strdup_printf(ngettext("Speak now: %u second left", "Speak now: %u seconds left", self->left),
                               self->left);
    case STOPPING:
    case ENHANCING: return g_strdup(_("Removing the noise…"));
    case RESTING:
    default:
        return g_strdup_printf(ngettext("Records %u second, then plays it before and after",
                                        "Records %u seconds, then plays them before and after", SECONDS),
                               SECONDS);
    }
}

static void show(PrimeknetTrial *self) {
    g_autofree char *test = describe_test(self);
    const gboolean plays = self->player != NULL;
    self->filling = TRUE;
    adw_action_row_set_subtitle(self->test_row, test);
    const gboolean records = self->stage == STARTING || self->stage == RECORDING;
    setting_label(self->record, records ? _("_Stop") : _("Rec_ord"));
    gtk_widget_set_sensitive(GTK_WIDGET(self->record),
                             (self->stage == RESTING && (self->microphone || !self->runs)) || records);
    gtk_widget_set_visible(self->result_row, self->stage == RESTING && self->folder);
    gtk_toggle_button_set_active(self->before, plays && self->playing == BEFORE);
    gtk_toggle_button_set_active(self->after, plays && self->playing == AFTER);
    gtk_widget_set_visible(GTK_WIDGET(self->listen_row), self->runs);
    gtk_widget_set_sensitive(GTK_WIDGET(self->listen), self->microphone || self->loopback);
    gtk_widget_set_sensitive(GTK_WIDGET(self->bypass), self->loopback != NULL);
    gtk_toggle_button_set_active(self->bypass, self->bypassed);
    setting_turn(self->listen, self->loopback != NULL);
    self->filling = FALSE;
}

void trial_tell(PrimeknetTrial *self, const json_t *status) {
    const char *microphone = text_of(json_object_get(status, "microphone"), "name");
    self->runs = status != NULL;
    g_free(self->microphone);
    self->microphone = microphone[0] ? g_strdup(microphone) : NULL;
    self->transparent = g_str_equal(text_of(json_object_get(status, "settings"), "transparent"), "true");
    if (self->stage == RECORDING && status)
        verdict_add(&self->verdict, status);
    if (!status && self->loopback)
        stop_listening(self);
    self->bypassed = json_is_true(json_object_get(status, "bypass"));
    show(self);
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

/* Stops recording, and deletes the recordings, when the window is closed. */
static void unmap(GtkWidget *widget) {
    PrimeknetTrial *self = PRIMEKNET_TRIAL(widget);
    GTK_WIDGET_CLASS(trial_parent_class)->unmap(widget);
    give_up(self, NULL);
    stop_listening(self);
}

static void trial_class_init(PrimeknetTrialClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    widget->unmap = unmap;
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/trial.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetTrial, child)
    BIND(test_row), BIND(listen_row), BIND(result_row), BIND(record), BIND(outcome), BIND(before), BIND(after);
    BIND(bypass), BIND(listen);
#undef BIND
    gtk_widget_class_bind_template_callback(widget, on_record);
    gtk_widget_class_bind_template_callback(widget, on_play);
    gtk_widget_class_bind_template_callback(widget, on_bypass);
    gtk_widget_class_bind_template_callback(widget, on_listen);
}

static void trial_init(PrimeknetTrial *self) {
    gtk_widget_init_template(GTK_WIDGET(self));
    show(self);
}
