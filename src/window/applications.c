#include "config.h"

#include "window/applications.h"

#include "window/link.h"
#include "window/setting.h"
#include "window/state.h"

#include <glib/gi18n.h>
#include <string.h>

/* ---- a row ------------------------------------------------------------------------------------------------------- */

#define APPLICATION_TYPE (application_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetApplication, application, PRIMEKNET, APPLICATION, AdwActionRow)

struct _PrimeknetApplication {
    AdwActionRow parent;
    GtkWidget *forget; /* removes the choice, so that the application selects its source again */
    GtkSwitch *enhances;
    gboolean filling;  /* the program, not the user, is setting the switch */
    guint under_way;   /* pending requests */
    gboolean in_force; /* the daemon's last list */
};

G_DEFINE_FINAL_TYPE(PrimeknetApplication, application, ADW_TYPE_ACTION_ROW)

static const char *name_of(gpointer row) {
    return adw_preferences_row_get_title(ADW_PREFERENCES_ROW(row));
}

static void show_choice(PrimeknetApplication *self) {
    if (self->under_way) /* the user is changing it */
        return;
    self->filling = TRUE;
    setting_turn(self->enhances, self->in_force);
    self->filling = FALSE;
}

static void on_answer(gpointer data, json_t *answer, const char *error) {
    g_autoptr(PrimeknetApplication) self = data;
    (void)answer;
    self->under_way--;
    if (!error)
        return; /* the watching connection receives the change */
    show_choice(self);
    gtk_widget_activate_action(GTK_WIDGET(self), "win.say", "s", error);
}

static void choose(PrimeknetApplication *self, const char *choice) {
    self->under_way++;
    link_ask(json_pack("{s:s, s:s, s:s}", "command", COMMAND_APP, "name", name_of(self), "choice", choice), on_answer,
             g_object_ref(self));
}

static void on_switch(PrimeknetApplication *self) {
    if (!self->filling)
        choose(self, gtk_switch_get_active(self->enhances) ? "on" : "off");
}

static void on_forget(PrimeknetApplication *self) {
    choose(self, "auto");
}

static void show_application(PrimeknetApplication *self, const json_t *application) {
    const char *choice = text_of(application, "choice");
    g_autofree char *from = link_join(json_object_get(application, "from"), _("Records nothing now"));
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self), from);
    gtk_widget_set_visible(self->forget, choice[0] != '\0');
    self->in_force = choice[0] ? strcmp(choice, "on") == 0 : json_is_true(json_object_get(application, "enhanced"));
    show_choice(self);
}

static void application_class_init(PrimeknetApplicationClass *class) {
    (void)class;
}

static void application_init(PrimeknetApplication *self) {
    AdwActionRow *row = ADW_ACTION_ROW(self);
    adw_preferences_row_set_use_markup(ADW_PREFERENCES_ROW(self), FALSE);
    self->forget = gtk_button_new_from_icon_name("edit-undo-symbolic");
    gtk_widget_set_valign(self->forget, GTK_ALIGN_CENTER);
    gtk_widget_add_css_class(self->forget, "flat");
    gtk_widget_set_tooltip_text(self->forget, _("Let the application choose again"));
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->forget), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   _("Let the application choose again"), -1);
    g_signal_connect_swapped(self->forget, "clicked", G_CALLBACK(on_forget), self);
    adw_action_row_add_suffix(row, self->forget);
    self->enhances = GTK_SWITCH(gtk_switch_new());
    gtk_widget_set_valign(GTK_WIDGET(self->enhances), GTK_ALIGN_CENTER);
    g_signal_connect_swapped(self->enhances, "notify::active", G_CALLBACK(on_switch), self);
    adw_action_row_add_suffix(row, GTK_WIDGET(self->enhances));
    adw_action_row_set_activatable_widget(row, GTK_WIDGET(self->enhances));
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

/* Returns the row with this name, and creates it if necessary. */
static PrimeknetApplication *row_for(PrimeknetApplications *self, const char *name) {
    for (guint at = 0; at < self->rows->len; at++)
        if (strcmp(name_of(g_ptr_array_index(self->rows, at)), name) == 0)
            return g_ptr_array_index(self->rows, at);
    PrimeknetApplication *row = g_object_new(APPLICATION_TYPE, NULL);
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(row), name); /* once it is taken as it is */
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
        if (strcmp(text_of(application, "name"), OWN_RECORDER) != 0)
            show_application(row_for(self, text_of(application, "name")), application);
    adw_preferences_group_set_description(ADW_PREFERENCES_GROUP(self), self->rows->len
                                                                           ? _("On: without noise. Off: unprocessed.")
                                                                           : _("No application records."));
}

static void finalize(GObject *object) {
    g_ptr_array_unref(PRIMEKNET_APPLICATIONS(object)->rows);
    G_OBJECT_CLASS(applications_parent_class)->finalize(object);
}

static void applications_class_init(PrimeknetApplicationsClass *class) {
    G_OBJECT_CLASS(class)->finalize = finalize;
}

static void applications_init(PrimeknetApplications *self) {
    self->rows = g_ptr_array_new();
}
