#include "config.h"

#include "window/applications.h"

#include "window/link.h"

#include <glib/gi18n.h>
#include <string.h>

/* ---- a row ------------------------------------------------------------------------------------------------------- */

#define APPLICATION_TYPE (application_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetApplication, application, PRIMEKNET, APPLICATION, AdwComboRow)

struct _PrimeknetApplication {
    AdwComboRow parent;
    gboolean filling;    /* the row is being changed, not by the user */
    guint under_way;     /* requests */
    guint in_force;      /* the choice that the daemon told last, as an index */
};

G_DEFINE_FINAL_TYPE(PrimeknetApplication, application, ADW_TYPE_COMBO_ROW)

static const char *const choices[] = {"auto", "on", "off"};

static guint refused;

static const char *name_of(gpointer row) {
    return adw_preferences_row_get_title(ADW_PREFERENCES_ROW(row));
}

static void show_choice(PrimeknetApplication *self) {
    if (self->under_way) /* the user is at it */
        return;
    self->filling = TRUE;
    adw_combo_row_set_selected(ADW_COMBO_ROW(self), self->in_force);
    self->filling = FALSE;
}

static void on_answer(gpointer data, json_t *answer, const char *error) {
    g_autoptr(PrimeknetApplication) self = data;
    GtkWidget *all = gtk_widget_get_ancestor(GTK_WIDGET(self), APPLICATIONS_TYPE); /* NULL: the row is gone */
    (void)answer;
    self->under_way--;
    if (!error)
        return; /* whoever watches is told */
    show_choice(self);
    if (all)
        g_signal_emit(all, refused, 0, error);
}

static void on_selected(PrimeknetApplication *self) {
    guint selected = adw_combo_row_get_selected(ADW_COMBO_ROW(self));
    if (self->filling || selected >= G_N_ELEMENTS(choices))
        return;
    self->under_way++;
    link_ask(json_pack("{s:s, s:s, s:s}", "command", "app", "name", name_of(self), "choice", choices[selected]),
             on_answer, g_object_ref(self));
}

static void show_application(PrimeknetApplication *self, const json_t *application) {
    g_autofree char *from = link_join(json_object_get(application, "from"), _("Nothing now"));
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self), from);
    self->in_force = 0;
    for (guint i = 0; i < G_N_ELEMENTS(choices); i++)
        if (strcmp(choices[i], text_of(application, "choice")) == 0)
            self->in_force = i;
    show_choice(self);
}

static void application_class_init(PrimeknetApplicationClass *class) {
    (void)class;
}

static void application_init(PrimeknetApplication *self) {
    const char *titles[] = {_("Automatic"), _("On"), _("Off"), NULL};
    g_autoptr(GtkStringList) model = gtk_string_list_new(titles);
    adw_preferences_row_set_use_markup(ADW_PREFERENCES_ROW(self), FALSE);
    adw_combo_row_set_model(ADW_COMBO_ROW(self), G_LIST_MODEL(model));
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

struct _PrimeknetApplications {
    AdwPreferencesGroup parent;
    GPtrArray *rows;
};

G_DEFINE_FINAL_TYPE(PrimeknetApplications, applications, ADW_TYPE_PREFERENCES_GROUP)

static const json_t *find_application(const json_t *applications, const char *name) {
    const json_t *application;
    size_t i;
    json_array_foreach(applications, i, application)
        if (strcmp(text_of(application, "name"), name) == 0)
            return application;
    return NULL;
}

/* The row of that name, which is made if need be. */
static PrimeknetApplication *row_for(PrimeknetApplications *self, const char *name) {
    for (guint at = 0; at < self->rows->len; at++)
        if (strcmp(name_of(g_ptr_array_index(self->rows, at)), name) == 0)
            return g_ptr_array_index(self->rows, at);
    PrimeknetApplication *row = g_object_new(APPLICATION_TYPE, "title", name, NULL);
    g_signal_connect(row, "notify::selected", G_CALLBACK(on_selected), NULL); /* not of what selects the first choice */
    adw_preferences_group_add(ADW_PREFERENCES_GROUP(self), GTK_WIDGET(row));
    g_ptr_array_add(self->rows, row);
    return row;
}

void applications_show(PrimeknetApplications *self, const json_t *status) {
    const json_t *applications = json_object_get(status, "applications"), *application;
    size_t i;
    for (guint at = self->rows->len; at-- > 0;) {
        gpointer row = g_ptr_array_index(self->rows, at);
        if (find_application(applications, name_of(row)))
            continue;
        adw_preferences_group_remove(ADW_PREFERENCES_GROUP(self), row);
        g_ptr_array_remove_index(self->rows, at);
    }
    json_array_foreach(applications, i, application)
        show_application(row_for(self, text_of(application, "name")), application);
    adw_preferences_group_set_description(ADW_PREFERENCES_GROUP(self),
                                          self->rows->len ? _("On: Enhanced Mic. Off: the bare microphone.")
                                                          : _("No application records"));
}

static void finalize(GObject *object) {
    g_ptr_array_unref(PRIMEKNET_APPLICATIONS(object)->rows);
    G_OBJECT_CLASS(applications_parent_class)->finalize(object);
}

static void applications_class_init(PrimeknetApplicationsClass *class) {
    G_OBJECT_CLASS(class)->finalize = finalize;
    refused = g_signal_new("refused", APPLICATIONS_TYPE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 1,
                           G_TYPE_STRING);
}

static void applications_init(PrimeknetApplications *self) {
    self->rows = g_ptr_array_new();
}
