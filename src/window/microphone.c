#include "config.h"

#include "window/microphone.h"

#include "window/link.h"
#include "window/setting.h"

#include <glib/gi18n.h>

enum { METER_DB = 60 };

struct _PrimeknetMicrophone {
    AdwPreferencesGroup parent;
    AdwActionRow *choice;
    GtkWidget *muted;
    GtkLevelBar *level;
    GtkLabel *level_text;
    GtkWidget *light;
    GtkSwitch *enhances;
    struct setting setting;
    json_t *status;   /* the last status, or NULL */
    gboolean filling; /* the program, not the user, is setting the switch */
};

G_DEFINE_FINAL_TYPE(PrimeknetMicrophone, microphone, ADW_TYPE_PREFERENCES_GROUP)

/* ---- what is shown ----------------------------------------------------------------------------------------------- */

static void offer(PrimeknetMicrophone *self) {
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
    setting_offer(&self->setting, (const char *const *)v, (const char *const *)t);
}

static void show_switch(PrimeknetMicrophone *self) {
    self->filling = TRUE;
    setting_turn(self->enhances, !json_is_true(json_object_get(self->status, "bypass")));
    self->filling = FALSE;
}

static void show_light(PrimeknetMicrophone *self, gboolean lit) {
    const char *text = lit ? _("Too loud") : _("Not too loud");
    gtk_widget_set_tooltip_text(self->light, text);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->light), GTK_ACCESSIBLE_PROPERTY_LABEL, text, -1);
    if (lit)
        gtk_widget_add_css_class(self->light, "lit");
    else
        gtk_widget_remove_css_class(self->light, "lit");
}

void microphone_show_level(PrimeknetMicrophone *self, const json_t *status) {
    const json_t *level = json_object_get(status, "level_in_db");
    const double db = json_number_value(level);
    g_autofree char *text = json_is_number(level) ? g_strdup_printf(_("%.0f dB"), db)
                                                  : g_strdup(level ? _("silence") : _("not in use"));
    gtk_level_bar_set_value(self->level, json_is_number(level) ? CLAMP(db + METER_DB, 0, METER_DB) : 0);
    gtk_label_set_text(self->level_text, text);
    show_light(self, json_is_true(json_object_get(status, "clips")));
}

/* Shows the full name of the current microphone: the list cuts long names. */
static void show_setting(gpointer data) {
    PrimeknetMicrophone *self = data;
    setting_show(&self->setting, self->status, text_of(json_object_get(self->status, "microphone"), "description"));
}

void microphone_show(PrimeknetMicrophone *self, const json_t *status) {
    json_decref(self->status);
    self->status = json_incref((json_t *)(gpointer)status);
    offer(self);
    show_setting(self);
    show_switch(self);
    gtk_widget_set_visible(self->muted, json_is_object(json_object_get(status, "silenced")));
    microphone_show_level(self, status);
}

/* ---- the choices: by names in full, for those of one sound card may differ at their ends only -------------------- */

static void show_tick(AdwComboRow *row, GParamSpec *property, GtkListItem *item) {
    GtkWidget *tick = gtk_widget_get_last_child(gtk_list_item_get_child(item));
    (void)property;
    gtk_widget_set_opacity(tick, adw_combo_row_get_selected_item(row) == gtk_list_item_get_item(item) ? 1 : 0);
}

static void on_setup(PrimeknetMicrophone *self, GtkListItem *item) {
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 6);
    GtkWidget *name = g_object_new(GTK_TYPE_LABEL, "xalign", 0.0, "hexpand", TRUE, "wrap", TRUE, "max-width-chars", 32,
                                   NULL);
    (void)self;
    gtk_box_append(GTK_BOX(box), name);
    gtk_box_append(GTK_BOX(box), g_object_new(GTK_TYPE_IMAGE, "icon-name", "object-select-symbolic", "accessible-role",
                                              GTK_ACCESSIBLE_ROLE_PRESENTATION, NULL));
    gtk_list_item_set_child(item, box);
}

static void on_bind(PrimeknetMicrophone *self, GtkListItem *item) {
    GtkWidget *name = gtk_widget_get_first_child(gtk_list_item_get_child(item));
    gtk_label_set_text(GTK_LABEL(name), gtk_string_object_get_string(gtk_list_item_get_item(item)));
    g_signal_connect(self->choice, "notify::selected-item", G_CALLBACK(show_tick), item);
    show_tick(ADW_COMBO_ROW(self->choice), NULL, item);
}

static void on_unbind(PrimeknetMicrophone *self, GtkListItem *item) {
    g_signal_handlers_disconnect_by_data(self->choice, item);
}

/* ---- what the user does ------------------------------------------------------------------------------------------ */

static void on_bypassed(gpointer data, json_t *answer, const char *error) {
    g_autoptr(PrimeknetMicrophone) self = data;
    (void)answer;
    if (!error)
        return;
    gtk_widget_activate_action(GTK_WIDGET(self), "win.say", "s", error);
    show_switch(self);
}

static void on_switch(PrimeknetMicrophone *self) {
    const char *bypass = gtk_switch_get_active(self->enhances) ? "off" : "on";
    if (!self->filling)
        link_ask(json_pack("{s:s, s:s}", "command", COMMAND_BYPASS, "state", bypass), on_bypassed, g_object_ref(self));
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void microphone_class_init(PrimeknetMicrophoneClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/microphone.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetMicrophone, child)
    BIND(choice), BIND(muted), BIND(level), BIND(level_text), BIND(light), BIND(enhances);
#undef BIND
    gtk_widget_class_bind_template_callback(widget, on_bind);
    gtk_widget_class_bind_template_callback(widget, on_setup);
    gtk_widget_class_bind_template_callback(widget, on_switch);
    gtk_widget_class_bind_template_callback(widget, on_unbind);
}

static void microphone_init(PrimeknetMicrophone *self) {
    gtk_widget_init_template(GTK_WIDGET(self));
    gtk_level_bar_remove_offset_value(self->level, GTK_LEVEL_BAR_OFFSET_LOW); /* the clipping light shows what is too
                                                                               * loud */
    gtk_level_bar_remove_offset_value(self->level, GTK_LEVEL_BAR_OFFSET_HIGH);
    gtk_level_bar_remove_offset_value(self->level, GTK_LEVEL_BAR_OFFSET_FULL);
    self->setting = (struct setting){.name = "microphone", .row = self->choice, .refused = show_setting, .data = self};
    setting_open(&self->setting);
}
