/* primeknet-gtk: a window for primeknetd, and optionally a tray icon. The daemon continues without them. */
#include "config.h"

#include "window/link.h"
#include "window/tray.h"
#include "window/window.h"

#include <glib/gi18n.h>
#include <locale.h>

struct app {
    PrimeknetWindow *window;
    struct tray *tray; /* NULL: not requested */
};

static void on_told(gpointer data, json_t *status, const char *error) {
    struct app *a = data;
    window_tell(a->window, status, error);
    if (a->tray)
        tray_tell(a->tray, status);
}

/* The window may return: from the tray, or while its last settings are being sent. */
static gboolean on_close(GtkWindow *window, gpointer data) {
    (void)data;
    gtk_widget_set_visible(GTK_WIDGET(window), FALSE);
    gtk_window_set_application(window, NULL);
    return TRUE;
}

static void on_startup(struct app *a) {
    gtk_window_set_default_icon_name(APP_ID);
    a->window = g_object_ref_sink(window_new());
    g_signal_connect(a->window, "close-request", G_CALLBACK(on_close), NULL);
    link_watch(on_told, a);
}

static void show(GSimpleAction *action, GVariant *parameter, gpointer data) {
    struct app *a = data;
    (void)action, (void)parameter;
    gtk_window_set_application(GTK_WINDOW(a->window), GTK_APPLICATION(g_application_get_default()));
    gtk_window_present(GTK_WINDOW(a->window));
}

static void about(GSimpleAction *action, GVariant *parameter, gpointer data) {
    struct app *a = data;
    (void)action, (void)parameter;
    adw_show_about_window(GTK_WINDOW(a->window), "application-name", "PrimeKnet", "application-icon", APP_ID, "version",
                          PACKAGE_VERSION, "comments", _("A clean microphone"), "license-type", GTK_LICENSE_GPL_3_0,
                          NULL);
}

static void quit(GSimpleAction *action, GVariant *parameter, gpointer data) {
    struct app *a = data;
    (void)action, (void)parameter;
    gtk_window_close(GTK_WINDOW(a->window));
    if (a->tray)
        tray_close(g_steal_pointer(&a->tray));
}

/* Returns -1 to continue. */
static int on_options(GApplication *application, GVariantDict *options, gpointer data) {
    (void)application, (void)data;
    if (!g_variant_dict_contains(options, "version"))
        return -1;
    g_print("primeknet-gtk " PACKAGE_VERSION "\n");
    return 0;
}

static int on_command_line(GApplication *application, GApplicationCommandLine *line, gpointer data) {
    struct app *a = data;
    if (!g_variant_dict_contains(g_application_command_line_get_options_dict(line), "tray"))
        show(NULL, NULL, a);
    else if (!a->tray)
        a->tray = tray_open(application);
    return 0;
}

/* Disables OpenGL: meters do not need it. It would wake the GPU or, in software, occupy a core, and GDK would load it
 * for nothing. */
static void draw_without_gpu(void) {
    g_setenv("GSK_RENDERER", "cairo", FALSE);
    if (gtk_get_minor_version() < 16)
        g_setenv("GDK_DEBUG", "gl-disable", FALSE);
    else
        g_setenv("GDK_DISABLE", "gl,vulkan", FALSE);
}

int main(int argc, char **argv) {
    static const GOptionEntry options[] = {
        {"tray", 't', 0, G_OPTION_ARG_NONE, NULL, N_("Start in the tray"), NULL},
        {"version", 'v', 0, G_OPTION_ARG_NONE, NULL, N_("Print the version"), NULL},
        {0},
    };
    struct app a = {0};
    static const GActionEntry actions[] = {
        {.name = "show", .activate = show},
        {.name = "about", .activate = about},
        {.name = "quit", .activate = quit},
    };
    draw_without_gpu();
    setlocale(LC_ALL, "");
    bindtextdomain(GETTEXT_PACKAGE, LOCALEDIR);
    bind_textdomain_codeset(GETTEXT_PACKAGE, "UTF-8");
    textdomain(GETTEXT_PACKAGE);

    g_autoptr(AdwApplication) application = adw_application_new(APP_ID, G_APPLICATION_HANDLES_COMMAND_LINE);
    GApplication *app = G_APPLICATION(application);
    g_application_add_main_option_entries(app, options);
    g_action_map_add_action_entries(G_ACTION_MAP(app), actions, G_N_ELEMENTS(actions), &a);
    gtk_application_set_accels_for_action(GTK_APPLICATION(app), "app.quit", (const char *[]){"<Control>q", NULL});
    gtk_application_set_accels_for_action(GTK_APPLICATION(app), "win.check", (const char *[]){"F2", NULL});
    gtk_application_set_accels_for_action(GTK_APPLICATION(app), "window.close", (const char *[]){"<Control>w", NULL});
    g_signal_connect_swapped(app, "startup", G_CALLBACK(on_startup), &a);
    g_signal_connect(app, "handle-local-options", G_CALLBACK(on_options), NULL);
    g_signal_connect(app, "command-line", G_CALLBACK(on_command_line), &a);
    return g_application_run(app, argc, argv);
}
