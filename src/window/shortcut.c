#include "config.h"

#include "window/shortcut.h"

#include "base/state.h"
#include "window/link.h"

#include <glib/gi18n.h>
#include <string.h>

#define PORTAL "org.freedesktop.portal.Desktop"
#define PATH "/org/freedesktop/portal/desktop"
#define INTERFACE "org.freedesktop.portal.GlobalShortcuts"
#define ID "toggle"
#define STATE "shortcut" /* created when the user first requests a key */

typedef void responded(struct shortcut *s, guint response, GVariant *results);

struct shortcut {
    GDBusConnection *bus;
    shortcut_told *told;
    gpointer data;
    char *session;        /* the portal's, or NULL */
    gboolean closes;      /* the portal is closing the session before */
    guint answer;         /* a subscription while a request is pending, or 0 */
    responded *responded; /* to that request */
};

/* ---- requests: the portal answers by a signal -------------------------------------------------------------------- */

static void on_response(GDBusConnection *bus, const char *sender, const char *path, const char *interface,
                        const char *signal, GVariant *parameters, gpointer data) {
    struct shortcut *s = data;
    g_autoptr(GVariant) results = NULL;
    guint response;
    (void)sender, (void)path, (void)interface, (void)signal;
    if (!g_variant_is_of_type(parameters, G_VARIANT_TYPE("(ua{sv})")))
        return;
    g_variant_get(parameters, "(u@a{sv})", &response, &results);
    g_dbus_connection_signal_unsubscribe(bus, s->answer);
    s->answer = 0;
    s->responded(s, response, results);
}

static void on_called(GObject *bus, GAsyncResult *result, gpointer data) {
    struct shortcut *s = data;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) answer = g_dbus_connection_call_finish(G_DBUS_CONNECTION(bus), result, &error);
    if (answer || !s->answer)
        return;
    g_dbus_connection_signal_unsubscribe(s->bus, s->answer);
    s->answer = 0;
    s->told(s->data, TRUE, "", error->message);
}

/* Calls a method of the portal. parameters: all except its options, which contain the tokens. One request at a time. */
static void request(struct shortcut *s, const char *method, GVariant **parameters, gsize n, responded *then) {
    static guint count;
    g_autofree char *token = g_strdup_printf("primeknet%u", ++count);
    g_autofree char *sender = g_strdelimit(g_strdup(g_dbus_connection_get_unique_name(s->bus) + 1), ".", '_');
    g_autofree char *path = g_strdup_printf(PATH "/request/%s/%s", sender, token);
    GVariantBuilder options, all;
    g_variant_builder_init(&options, G_VARIANT_TYPE_VARDICT);
    g_variant_builder_add(&options, "{sv}", "handle_token", g_variant_new_string(token));
    g_variant_builder_add(&options, "{sv}", "session_handle_token", g_variant_new_string("primeknet"));
    g_variant_builder_init(&all, G_VARIANT_TYPE_TUPLE);
    for (gsize i = 0; i < n; i++)
        g_variant_builder_add_value(&all, parameters[i]);
    g_variant_builder_add_value(&all, g_variant_builder_end(&options));
    s->responded = then;
    s->answer = g_dbus_connection_signal_subscribe(s->bus, PORTAL, "org.freedesktop.portal.Request", "Response", path,
                                                   NULL, G_DBUS_SIGNAL_FLAGS_NONE, on_response, s, NULL);
    g_dbus_connection_call(s->bus, PORTAL, PATH, INTERFACE, method, g_variant_builder_end(&all), NULL,
                           G_DBUS_CALL_FLAGS_NONE, -1, NULL, on_called, s);
}

/* ---- the key ----------------------------------------------------------------------------------------------------- */

static void on_bound(struct shortcut *s, guint response, GVariant *results) {
    g_autoptr(GVariant) shortcuts = g_variant_lookup_value(results, "shortcuts", G_VARIANT_TYPE("a(sa{sv})"));
    const char *trigger = NULL;
    if (response == 0 && shortcuts && g_variant_n_children(shortcuts) > 0) {
        g_autoptr(GVariant) first = g_variant_get_child_value(shortcuts, 0);
        g_autoptr(GVariant) properties = g_variant_get_child_value(first, 1);
        g_variant_lookup(properties, "trigger_description", "&s", &trigger);
        state_write(STATE, "wanted");
        s->told(s->data, TRUE, trigger ? trigger : "", NULL);
    } else {
        s->told(s->data, TRUE, "", response == 0 ? _("The desktop assigned no key") : NULL);
    }
}

static void bind(struct shortcut *s) {
    GVariantBuilder properties, shortcuts;
    g_variant_builder_init(&properties, G_VARIANT_TYPE_VARDICT);
    g_variant_builder_add(&properties, "{sv}", "description", g_variant_new_string(_("Turn noise removal on or off")));
    g_variant_builder_add(&properties, "{sv}", "preferred_trigger", g_variant_new_string("CTRL+ALT+n"));
    g_variant_builder_init(&shortcuts, G_VARIANT_TYPE("a(sa{sv})"));
    g_variant_builder_add(&shortcuts, "(s@a{sv})", ID, g_variant_builder_end(&properties));
    GVariant *parameters[] = {g_variant_new_object_path(s->session), g_variant_builder_end(&shortcuts),
                              g_variant_new_string("")};
    request(s, "BindShortcuts", parameters, G_N_ELEMENTS(parameters), on_bound);
}

static void on_session(struct shortcut *s, guint response, GVariant *results) {
    const char *session = NULL;
    if (response == 0)
        g_variant_lookup(results, "session_handle", "&s", &session);
    if (!session || !g_variant_is_object_path(session)) {
        s->told(s->data, TRUE, "", _("The desktop assigned no key"));
        return;
    }
    s->session = g_strdup(session);
    bind(s);
}

static void on_closed(GObject *bus, GAsyncResult *result, gpointer data) {
    struct shortcut *s = data;
    g_autoptr(GVariant) answer = g_dbus_connection_call_finish(G_DBUS_CONNECTION(bus), result, NULL);
    s->closes = FALSE;
    request(s, "CreateSession", NULL, 0, on_session);
}

/* The portal accepts one attempt per session, so each needs its own. They have one name, by which desktops remember the
 * key, so the last one must have ended. */
void shortcut_ask(struct shortcut *s) {
    if (s->answer || s->closes) /* the desktop is asking already */
        return;
    if (!s->session) {
        request(s, "CreateSession", NULL, 0, on_session);
        return;
    }
    g_autofree char *session = g_steal_pointer(&s->session);
    s->closes = TRUE;
    g_dbus_connection_call(s->bus, PORTAL, session, "org.freedesktop.portal.Session", "Close", NULL, NULL,
                           G_DBUS_CALL_FLAGS_NONE, -1, NULL, on_closed, s);
}

static void on_activated(GDBusConnection *bus, const char *sender, const char *path, const char *interface,
                         const char *signal, GVariant *parameters, gpointer data) {
    struct shortcut *s = data;
    const char *session = NULL, *id = NULL;
    (void)bus, (void)sender, (void)path, (void)interface, (void)signal;
    if (!g_variant_is_of_type(parameters, G_VARIANT_TYPE("(osta{sv})")))
        return;
    g_variant_get_child(parameters, 0, "&o", &session);
    g_variant_get_child(parameters, 1, "&s", &id);
    if (s->session && strcmp(session, s->session) == 0 && strcmp(id, ID) == 0)
        link_ask(json_pack("{s:s, s:s}", "command", COMMAND_BYPASS, "state", "toggle"), NULL, NULL);
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void on_version(GObject *bus, GAsyncResult *result, gpointer data) {
    struct shortcut *s = data;
    char line[16];
    g_autoptr(GVariant) version = g_dbus_connection_call_finish(G_DBUS_CONNECTION(bus), result, NULL);
    if (!version)
        return;
    s->told(s->data, TRUE, "", NULL);
    if (state_read(STATE, line, sizeof line))
        shortcut_ask(s);
}

struct shortcut *shortcut_open(GDBusConnection *bus, shortcut_told *told, gpointer data) {
    struct shortcut *s = g_new0(struct shortcut, 1);
    *s = (struct shortcut){.bus = bus, .told = told, .data = data};
    g_dbus_connection_signal_subscribe(bus, PORTAL, INTERFACE, "Activated", PATH, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
                                       on_activated, s, NULL);
    g_dbus_connection_call(bus, PORTAL, PATH, "org.freedesktop.DBus.Properties", "Get",
                           g_variant_new("(ss)", INTERFACE, "version"), G_VARIANT_TYPE("(v)"), G_DBUS_CALL_FLAGS_NONE,
                           -1, NULL, on_version, s);
    return s;
}
