#include "config.h"

#include "window/advanced.h"

#include "window/link.h"
#include "window/problem.h"
#include "window/setting.h"

#include <glib/gi18n.h>
#include <string.h>

enum { MODEL, ENGINE, SPEAKER, N_SETTINGS };

struct _PrimeknetAdvanced {
    AdwPreferencesGroup parent;
    AdwActionRow *model, *engine, *speaker;
    GtkLabel *delay;
    struct setting settings[N_SETTINGS];
    json_t *status; /* the last status, or NULL */
};

G_DEFINE_FINAL_TYPE(PrimeknetAdvanced, advanced, ADW_TYPE_PREFERENCES_GROUP)

/* ---- what is shown ----------------------------------------------------------------------------------------------- */

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
        return g_strdup(_("An output that removes noise from the people you listen to"));
    if (strcmp(text_of(speaker, "state"), STATE_NO_OUTPUT) == 0)
        return g_strdup(_("There is no output"));
    if (json_array_size(players) == 0)
        return g_strdup(_("No application plays"));
    return g_strdup_printf(_("Plays %s, delay %.1f ms"), names, number_of(speaker, "delay_ms"));
}

/* Without a GPU there is no choice. */
static gboolean offers_engines(const json_t *status) {
    return g_file_test("/proc/driver/nvidia/version", G_FILE_TEST_EXISTS) ||
           strcmp(text_of(json_object_get(status, "settings"), "engine"), "cuda") == 0;
}

static void show_settings(gpointer data) {
    PrimeknetAdvanced *self = data;
    const json_t *status = self->status;
    gboolean swapping = json_is_true(json_object_get(status, "swapping"));
    g_autofree char *model = g_strdup_printf(swapping ? _("%s on %s, loading another") : _("%s on %s"),
                                             text_of(status, "model"), text_of(status, "engine"));
    g_autofree char *speaker = describe_speaker(status), *gpu = problem_tell(json_object_get(status, "gpu_unused"));
    setting_show(&self->settings[MODEL], status, model);
    setting_show(&self->settings[ENGINE], status, gpu);
    setting_show(&self->settings[SPEAKER], status, speaker);
    gtk_widget_set_visible(GTK_WIDGET(self->engine), offers_engines(status));
}

void advanced_show_delay(PrimeknetAdvanced *self, const json_t *status) {
    const double ms = number_of(status, "delay_ms");
    g_autofree char *delay = g_strdup_printf(_("%.1f ms"), ms);
    gtk_label_set_text(self->delay, ms > 0 ? delay : "–");
}

void advanced_show(PrimeknetAdvanced *self, const json_t *status) {
    json_decref(self->status);
    self->status = json_incref((json_t *)(gpointer)status);
    show_settings(self);
    advanced_show_delay(self, status);
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void advanced_class_init(PrimeknetAdvancedClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/advanced.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetAdvanced, child)
    BIND(model), BIND(engine), BIND(speaker), BIND(delay);
#undef BIND
}

static void advanced_init(PrimeknetAdvanced *self) {
    static const char *const speakers[] = {"off", "default", NULL};
    static const char *const models[] = {"auto", "small", "base", "large", NULL};
    static const char *const engines[] = {"auto", "cpu", "cuda", NULL};
    const char *speaker_titles[] = {_("Off"), _("The system's output"), NULL};
    const char *model_titles[] = {_("Automatic"), "small", "base", "large", NULL};
    const char *engine_titles[] = {_("Automatic"), _("Processor"), _("NVIDIA GPU"), NULL};
    gtk_widget_init_template(GTK_WIDGET(self));
    const struct setting settings[N_SETTINGS] = {
        [MODEL] = {.name = "model", .row = self->model},
        [ENGINE] = {.name = "engine", .row = self->engine},
        [SPEAKER] = {.name = "speaker", .row = self->speaker},
    };
    for (int i = 0; i < N_SETTINGS; i++) {
        self->settings[i] = settings[i];
        self->settings[i].refused = show_settings;
        self->settings[i].data = self;
        setting_open(&self->settings[i]);
    }
    setting_offer(&self->settings[MODEL], models, model_titles);
    setting_offer(&self->settings[ENGINE], engines, engine_titles);
    setting_offer(&self->settings[SPEAKER], speakers, speaker_titles);
}
