#include "config.h"

#include "window/tray.h"

#include "window/link.h"

#include <glib/gi18n.h>
#include <libdbusmenu-glib/dbusmenu-glib.h>
#include <math.h>
#include <string.h>

#define WATCHER "org.kde.StatusNotifierWatcher"
#define ITEM "org.kde.StatusNotifierItem"
#define ITEM_PATH "/StatusNotifierItem"
#define MENU_PATH "/MenuBar"

static const char introspection[] =
    "<node><interface name='" ITEM "'>"
    "<property name='Category' type='s' access='read'/><property name='Id' type='s' access='read'/>"
    "<property name='Title' type='s' access='read'/><property name='Status' type='s' access='read'/>"
    "<property name='IconName' type='s' access='read'/><property name='ToolTip' type='(sa(iiay)ss)' access='read'/>"
    "<property name='ItemIsMenu' type='b' access='read'/><property name='Menu' type='o' access='read'/>"
    "<method name='Activate'><arg name='x' type='i'/><arg name='y' type='i'/></method>"
    "<method name='SecondaryActivate'><arg name='x' type='i'/><arg name='y' type='i'/></method>"
    "<method name='Scroll'><arg name='delta' type='i'/><arg name='orientation' type='s'/></method>"
    "<signal name='NewIcon'/><signal name='NewToolTip'/>"
    "</interface></node>";

static const double strengths[] = {0.25, 0.5, 0.75, 1};
enum { HOST_S = 5 }; /* a panel that starts together with the desktop takes a while */

static const double scroll_step = 0.05;

struct tray {
    GApplication *application;
    GDBusConnection *bus;
    guint object, watch, patience;
    GCancellable *asking; /* the watcher */
    char *watcher;        /* its name on the bus, or NULL */
    gboolean holds;       /* the application, which keeps running without its window */
    DbusmenuServer *menu;
    DbusmenuMenuitem *enhances, *strength, *strengths[G_N_ELEMENTS(strengths)];
    gboolean runs, bypass;
    double now; /* the strength */
};

/* ---- what it does ------------------------------------------------------------------------------------------------ */

static void toggle(struct tray *t) {
    if (t->runs)
        link_ask(json_pack("{s:s, s:s}", "command", COMMAND_BYPASS, "state", t->bypass ? "off" : "on"), NULL, NULL);
}

static void set_strength(struct tray *t, double strength) {
    char value[G_ASCII_DTOSTR_BUF_SIZE];
    if (t->runs)
        link_ask(json_pack("{s:s, s:s, s:s, s:b}", "command", COMMAND_SET, "name", "strength", "value",
                           g_ascii_formatd(value, sizeof value, "%.2f", strength), "save", TRUE),
                 NULL, NULL);
}

static void on_call(GDBusConnection *bus, const char *sender, const char *path, const char *interface,
                    const char *method, GVariant *parameters, GDBusMethodInvocation *invocation, gpointer data) {
    struct tray *t = data;
    (void)bus, (void)sender, (void)path, (void)interface;
    if (strcmp(method, "Activate") == 0) {
        g_action_group_activate_action(G_ACTION_GROUP(t->application), "show", NULL);
    } else if (strcmp(method, "SecondaryActivate") == 0) {
        toggle(t);
    } else { /* Scroll */
        int delta;
        g_variant_get(parameters, "(i&s)", &delta, NULL);
        t->now = CLAMP(t->now + (delta < 0 ? scroll_step : -scroll_step), 0, 1); /* several may arrive before a
                                                                                  * status */
        set_strength(t, t->now);
    }
    g_dbus_method_invocation_return_value(invocation, NULL);
}

/* ---- what it shows ----------------------------------------------------------------------------------------------- */

static const char *describe(const struct tray *t) {
    return !t->runs ? _("Enhanced Mic is off") : t->bypass ? _("Noise is not removed") : _("Noise is removed");
}

static GVariant *on_get(GDBusConnection *bus, const char *sender, const char *path, const char *interface,
                        const char *property, GError **error, gpointer data) {
    const struct tray *t = data;
    (void)bus, (void)sender, (void)path, (void)interface, (void)error;
    if (strcmp(property, "IconName") == 0)
        return g_variant_new_string(t->runs && !t->bypass ? "audio-input-microphone-symbolic"
                                                          : "microphone-sensitivity-muted-symbolic");
    if (strcmp(property, "ToolTip") == 0)
        return g_variant_new("(sa(iiay)ss)", "", NULL, "PrimeKnet", describe(t));
    if (strcmp(property, "ItemIsMenu") == 0)
        return g_variant_new_boolean(FALSE);
    if (strcmp(property, "Menu") == 0)
        return g_variant_new_object_path(MENU_PATH);
    return g_variant_new_string(strcmp(property, "Category") == 0 ? "ApplicationStatus"
                                : strcmp(property, "Id") == 0     ? "primeknet"
                                : strcmp(property, "Title") == 0  ? "PrimeKnet"
                                                                  : "Active");
}

static void check(DbusmenuMenuitem *item, gboolean checked) {
    int state = checked ? DBUSMENU_MENUITEM_TOGGLE_STATE_CHECKED : DBUSMENU_MENUITEM_TOGGLE_STATE_UNCHECKED;
    dbusmenu_menuitem_property_set_int(item, DBUSMENU_MENUITEM_PROP_TOGGLE_STATE, state);
}

void tray_tell(struct tray *t, const json_t *status) {
    gboolean bypass = json_is_true(json_object_get(status, "bypass"));
    gboolean differs = t->runs != !!status || t->bypass != bypass;
    t->runs = !!status;
    t->bypass = bypass;
    t->now = number_of(json_object_get(status, "settings"), "strength");
    check(t->enhances, t->runs && !t->bypass);
    dbusmenu_menuitem_property_set_bool(t->enhances, DBUSMENU_MENUITEM_PROP_ENABLED, t->runs);
    dbusmenu_menuitem_property_set_bool(t->strength, DBUSMENU_MENUITEM_PROP_ENABLED, t->runs);
    for (size_t i = 0; i < G_N_ELEMENTS(strengths); i++)
        check(t->strengths[i], t->runs && fabs(t->now - strengths[i]) < 0.005);
    if (differs) {
        g_dbus_connection_emit_signal(t->bus, NULL, ITEM_PATH, ITEM, "NewIcon", NULL, NULL);
        g_dbus_connection_emit_signal(t->bus, NULL, ITEM_PATH, ITEM, "NewToolTip", NULL, NULL);
    }
}

/* ---- the menu ---------------------------------------------------------------------------------------------------- */

static void on_strength(DbusmenuMenuitem *item, guint time, gpointer data) {
    struct tray *t = data;
    (void)time;
    for (size_t i = 0; i < G_N_ELEMENTS(strengths); i++)
        if (t->strengths[i] == item)
            set_strength(t, strengths[i]);
}

static void on_action(DbusmenuMenuitem *item, guint time, gpointer data) {
    (void)time;
    g_action_group_activate_action(G_ACTION_GROUP(data), g_object_get_data(G_OBJECT(item), "action"), NULL);
}

static DbusmenuMenuitem *add(DbusmenuMenuitem *parent, const char *label, const char *toggle_type) {
    DbusmenuMenuitem *item = dbusmenu_menuitem_new();
    dbusmenu_menuitem_property_set(item, DBUSMENU_MENUITEM_PROP_LABEL, label);
    if (toggle_type)
        dbusmenu_menuitem_property_set(item, DBUSMENU_MENUITEM_PROP_TOGGLE_TYPE, toggle_type);
    dbusmenu_menuitem_child_append(parent, item);
    g_object_unref(item);
    return item;
}

static void add_action(struct tray *t, DbusmenuMenuitem *parent, const char *label, const char *action) {
    DbusmenuMenuitem *item = add(parent, label, NULL);
    g_object_set_data(G_OBJECT(item), "action", (gpointer)action);
    g_signal_connect(item, DBUSMENU_MENUITEM_SIGNAL_ITEM_ACTIVATED, G_CALLBACK(on_action), t->application);
}

static void make_menu(struct tray *t) {
    g_autoptr(GObject) owner = G_OBJECT(dbusmenu_menuitem_new());
    DbusmenuMenuitem *root = DBUSMENU_MENUITEM(owner);
    t->enhances = add(root, _("_Remove noise"), DBUSMENU_MENUITEM_TOGGLE_CHECK);
    g_signal_connect_swapped(t->enhances, DBUSMENU_MENUITEM_SIGNAL_ITEM_ACTIVATED, G_CALLBACK(toggle), t);
    t->strength = add(root, _("_Strength"), NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(strengths); i++) {
        g_autofree char *label = g_strdup_printf("%.2f", strengths[i]);
        t->strengths[i] = add(t->strength, label, DBUSMENU_MENUITEM_TOGGLE_RADIO);
        g_signal_connect(t->strengths[i], DBUSMENU_MENUITEM_SIGNAL_ITEM_ACTIVATED, G_CALLBACK(on_strength), t);
    }
    add_action(t, root, _("_Open PrimeKnet"), "show");
    add_action(t, root, _("_Quit"), "quit");
    t->menu = dbusmenu_server_new(MENU_PATH);
    dbusmenu_server_set_root(t->menu, root);
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void hold(struct tray *t) {
    if (!t->holds)
        g_application_hold(t->application);
    t->holds = TRUE;
}

/* A panel may start later, or restart. */
static void on_watcher(GDBusConnection *bus, const char *name, const char *owner, gpointer data) {
    struct tray *t = data;
    (void)name;
    g_free(t->watcher);
    t->watcher = g_strdup(owner);
    hold(t);
    g_dbus_connection_call(bus, owner, "/StatusNotifierWatcher", WATCHER, "RegisterStatusNotifierItem",
                           g_variant_new("(s)", g_dbus_connection_get_unique_name(bus)), NULL, G_DBUS_CALL_FLAGS_NONE,
                           -1, NULL, NULL, NULL);
}

static void on_no_watcher(GDBusConnection *bus, const char *name, gpointer data) {
    struct tray *t = data;
    (void)bus, (void)name;
    g_clear_pointer(&t->watcher, g_free);
}

/* Handles that no panel shows the icon: closing the window then ends the program. */
static void do_without(struct tray *t) {
    g_action_group_activate_action(G_ACTION_GROUP(t->application), "show", NULL);
    if (t->holds)
        g_application_release(t->application);
    t->holds = FALSE;
}

/* A watcher without this property counts as one with a host. */
static void on_host(GObject *bus, GAsyncResult *result, gpointer data) {
    struct tray *t = data;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) answer = g_dbus_connection_call_finish(G_DBUS_CONNECTION(bus), result, &error);
    g_autoptr(GVariant) value = NULL;
    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED)) /* the tray is gone */
        return;
    if (answer)
        g_variant_get(answer, "(v)", &value);
    if (value && g_variant_is_of_type(value, G_VARIANT_TYPE_BOOLEAN) && !g_variant_get_boolean(value))
        do_without(t);
}

static gboolean on_patience(gpointer data) {
    struct tray *t = data;
    t->patience = 0;
    if (!t->watcher) {
        do_without(t);
        return G_SOURCE_REMOVE;
    }
    g_dbus_connection_call(t->bus, t->watcher, "/StatusNotifierWatcher", "org.freedesktop.DBus.Properties", "Get",
                           g_variant_new("(ss)", WATCHER, "IsStatusNotifierHostRegistered"), G_VARIANT_TYPE("(v)"),
                           G_DBUS_CALL_FLAGS_NONE, -1, t->asking, on_host, t);
    return G_SOURCE_REMOVE;
}

struct tray *tray_open(GApplication *application) {
    static const GDBusInterfaceVTable table = {.method_call = on_call, .get_property = on_get};
    struct tray *t = g_new0(struct tray, 1);
    g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml(introspection, NULL);
    t->application = application;
    t->bus = g_application_get_dbus_connection(application);
    make_menu(t);
    t->object = g_dbus_connection_register_object(t->bus, ITEM_PATH, node->interfaces[0], &table, t, NULL, NULL);
    t->watch = g_bus_watch_name_on_connection(t->bus, WATCHER, G_BUS_NAME_WATCHER_FLAGS_NONE, on_watcher, on_no_watcher,
                                              t, NULL);
    t->patience = g_timeout_add_seconds(HOST_S, on_patience, t);
    t->asking = g_cancellable_new();
    hold(t);
    return t;
}

void tray_close(struct tray *t) {
    g_bus_unwatch_name(t->watch);
    g_clear_handle_id(&t->patience, g_source_remove);
    g_cancellable_cancel(t->asking);
    g_object_unref(t->asking);
    g_free(t->watcher);
    g_dbus_connection_unregister_object(t->bus, t->object);
    g_object_unref(t->menu);
    if (t->holds)
        g_application_release(t->application);
    g_free(t);
}
