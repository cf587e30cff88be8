#include "config.h"

#include "window/system.h"

#include "window/command.h"
#include "window/setting.h"
#include "window/shortcut.h"

#include <glib/gi18n.h>
#include <string.h>

struct _PrimeknetSystem {
    AdwPreferencesGroup parent;
    GtkWidget *login_row;
    AdwActionRow *key_row;
    struct shortcut *shortcut;
    GtkSwitch *login, *by_default;
    gboolean filling;       /* the program, not the user, is setting a switch */
    guint under_way;        /* running commands */
    gboolean known, starts; /* whether systemd has the service; whether it starts at login */
    gboolean is_default;
};

G_DEFINE_FINAL_TYPE(PrimeknetSystem, system, ADW_TYPE_PREFERENCES_GROUP)

static guint changed;

static void show(PrimeknetSystem *self) {
    gtk_widget_set_visible(self->login_row, self->known);
    if (self->under_way) /* the user is changing it */
        return;
    self->filling = TRUE;
    setting_turn(self->login, self->starts);
    setting_turn(self->by_default, self->is_default);
    self->filling = FALSE;
}

/* ---- the service ------------------------------------------------------------------------------------------------- */

static void on_unit(GObject *bus, GAsyncResult *result, gpointer data) {
    g_autoptr(PrimeknetSystem) self = data;
    g_autoptr(GVariant) answer = g_dbus_connection_call_finish(G_DBUS_CONNECTION(bus), result, NULL);
    const char *state = NULL;
    if (answer)
        g_variant_get(answer, "(&s)", &state);
    self->known = state != NULL;
    self->starts = state && strcmp(state, "enabled") == 0;
    show(self);
    g_signal_emit(self, changed, 0);
}

void system_look(PrimeknetSystem *self) {
    GDBusConnection *bus = g_application_get_dbus_connection(g_application_get_default());
    if (bus)
        g_dbus_connection_call(bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                               "org.freedesktop.systemd1.Manager", "GetUnitFileState",
                               g_variant_new("(s)", "primeknet.service"), G_VARIANT_TYPE("(s)"),
                               G_DBUS_CALL_FLAGS_NO_AUTO_START, -1, NULL, on_unit, g_object_ref(self));
}

gboolean system_is_set_up(PrimeknetSystem *self) {
    return self->starts || !self->known;
}

gboolean system_has_systemd(PrimeknetSystem *self) {
    return self->known;
}

/* ---- what the user does ------------------------------------------------------------------------------------------ */

static void on_done(gpointer data, const char *problem) {
    g_autoptr(PrimeknetSystem) self = data;
    self->under_way--;
    if (problem)
        gtk_widget_activate_action(GTK_WIDGET(self), "win.say", "s", problem);
    show(self);
    system_look(self);
}

static void carry_out(PrimeknetSystem *self, const char *command) {
    if (self->filling)
        return;
    self->under_way++;
    command_run(command, on_done, g_object_ref(self));
}

static void on_login(PrimeknetSystem *self) {
    carry_out(self, gtk_switch_get_active(self->login) ? "systemctl --user enable primeknet"
                                                       : "systemctl --user disable primeknet");
}

static void on_default(PrimeknetSystem *self) {
    carry_out(self, gtk_switch_get_active(self->by_default) ? "primeknet default on" : "primeknet default off");
}

void system_show(PrimeknetSystem *self, const json_t *status) {
    self->is_default = json_is_true(json_object_get(status, "default"));
    show(self);
}

/* ---- the key ----------------------------------------------------------------------------------------------------- */

static void on_key(gpointer data, gboolean available, const char *trigger, const char *problem) {
    PrimeknetSystem *self = data;
    gtk_widget_set_visible(GTK_WIDGET(self->key_row), available);
    adw_action_row_set_subtitle(self->key_row,
                                trigger[0] ? trigger : _("Switches noise removal from within any application"));
    if (problem)
        gtk_widget_activate_action(GTK_WIDGET(self), "win.say", "s", problem);
}

static void on_set_key(PrimeknetSystem *self) {
    shortcut_ask(self->shortcut);
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void system_class_init(PrimeknetSystemClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/system.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetSystem, child)
    BIND(login_row), BIND(key_row), BIND(login), BIND(by_default);
#undef BIND
    gtk_widget_class_bind_template_callback(widget, on_login);
    gtk_widget_class_bind_template_callback(widget, on_default);
    gtk_widget_class_bind_template_callback(widget, on_set_key);
    changed = g_signal_new("changed", SYSTEM_TYPE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}

static void system_init(PrimeknetSystem *self) {
    GDBusConnection *bus = g_application_get_dbus_connection(g_application_get_default());
    gtk_widget_init_template(GTK_WIDGET(self));
    if (bus)
        self->shortcut = shortcut_open(bus, on_key, self);
    system_look(self);
}
