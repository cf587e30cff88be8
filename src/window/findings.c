#include "config.h"

#include "window/findings.h"

#include "control/client.h"
#include "window/command.h"

#include <glib/gi18n.h>
#include <string.h>

#define FINDINGS_TYPE (findings_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetFindings, findings, PRIMEKNET, FINDINGS, AdwWindow)

struct _PrimeknetFindings {
    AdwWindow parent;
    AdwToastOverlay *toasts;
    GtkStack *stack;
    GtkWidget *checking;
    AdwStatusPage *outcome;
    AdwPreferencesPage *page;
    AdwPreferencesGroup *group;
};

G_DEFINE_FINAL_TYPE(PrimeknetFindings, findings, ADW_TYPE_WINDOW)

void findings_say(AdwToastOverlay *toasts, const char *problem) {
    g_autofree char *escaped = g_markup_escape_text(problem, -1);
    AdwToast *toast = adw_toast_new(escaped);
    adw_toast_set_timeout(toast, 10);
    adw_toast_overlay_add_toast(toasts, toast);
}

static void look(PrimeknetFindings *self);

static void on_done(gpointer data, const char *problem) {
    PrimeknetFindings *self = data;
    if (problem)
        findings_say(self->toasts, problem);
    look(self);
    g_object_unref(self);
}

static void carry_out(GtkButton *button, gpointer data) {
    gtk_widget_set_sensitive(GTK_WIDGET(button), FALSE);
    command_run(g_object_get_data(G_OBJECT(button), "command"), on_done, g_object_ref(data));
}

static void add_row(PrimeknetFindings *self, const json_t *check) {
    gboolean problem = strcmp(text_of(check, "result"), "problem") == 0;
    const char *command = text_of(check, "command"), *advice = text_of(check, "advice");
    g_autofree char *text = g_strdup_printf(advice[0] ? "%s\n%s" : "%s", text_of(check, "text"), advice);
    const char *icon = problem ? "dialog-warning-symbolic" : "dialog-information-symbolic";
    GtkWidget *row = g_object_new(ADW_TYPE_ACTION_ROW, "use-markup", FALSE, "icon-name", icon, NULL);
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(row), text_of(check, "title")); /* once it is taken as it is */
    adw_action_row_set_subtitle(ADW_ACTION_ROW(row), text);
    if (command[0]) {
        GtkWidget *button = gtk_button_new_with_label(_("Fix"));
        gtk_widget_set_valign(button, GTK_ALIGN_CENTER);
        gtk_widget_set_tooltip_text(button, command);
        gtk_accessible_update_property(GTK_ACCESSIBLE(button), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, command, -1);
        g_object_set_data_full(G_OBJECT(button), "command", g_strdup(command), g_free);
        g_signal_connect(button, "clicked", G_CALLBACK(carry_out), self);
        adw_action_row_add_suffix(ADW_ACTION_ROW(row), button);
    }
    adw_preferences_group_add(self->group, row);
}

static void conclude(PrimeknetFindings *self, const char *title, const char *why) {
    adw_status_page_set_title(self->outcome, title);
    adw_status_page_set_description(self->outcome, why);
    gtk_stack_set_visible_child(self->stack, GTK_WIDGET(self->outcome));
}

static void on_checks(GObject *process, GAsyncResult *result, gpointer data) {
    g_autoptr(PrimeknetFindings) self = data;
    g_autoptr(GError) error = NULL;
    g_autofree char *output = NULL, *errors = NULL;
    const json_t *check;
    size_t i;
    if (!g_subprocess_communicate_utf8_finish(G_SUBPROCESS(process), result, &output, &errors, &error)) {
        conclude(self, _("Could Not Check"), error->message);
        return;
    }
    json_t *checks = json_loads(output, 0, NULL);
    gboolean well = TRUE;
    adw_preferences_page_remove(self->page, self->group);
    self->group = ADW_PREFERENCES_GROUP(adw_preferences_group_new());
    adw_preferences_page_add(self->page, self->group);
    json_array_foreach(checks, i, check) {
        if (strcmp(text_of(check, "result"), "ok") == 0)
            continue;
        add_row(self, check);
        well = FALSE;
    }
    if (!json_is_array(checks))
        conclude(self, _("Could Not Check"), errors);
    else if (well)
        conclude(self, _("All Is Well"), NULL);
    else
        gtk_stack_set_visible_child(self->stack, GTK_WIDGET(self->page));
    json_decref(checks);
}

static void look(PrimeknetFindings *self) {
    g_autoptr(GError) error = NULL;
    const GSubprocessFlags pipes = G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE;
    g_autoptr(GSubprocess) process = g_subprocess_new(pipes, &error, "primeknet", "doctor", "--json", NULL);
    if (!process) {
        conclude(self, _("Could Not Check"), error->message);
        return;
    }
    gtk_stack_set_visible_child(self->stack, self->checking);
    g_subprocess_communicate_utf8_async(process, NULL, NULL, on_checks, g_object_ref(self));
}

static void again(GtkWidget *widget, const char *action, GVariant *parameter) {
    (void)action, (void)parameter;
    look(PRIMEKNET_FINDINGS(widget));
}

static void findings_class_init(PrimeknetFindingsClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    gtk_widget_class_set_template_from_resource(widget, "/org/primeknet/PrimeKnet/findings.ui");
#define BIND(child) gtk_widget_class_bind_template_child(widget, PrimeknetFindings, child)
    BIND(toasts), BIND(stack), BIND(checking), BIND(page), BIND(outcome), BIND(group);
#undef BIND
    gtk_widget_class_install_action(widget, "findings.again", NULL, again);
    gtk_widget_class_add_binding_action(widget, GDK_KEY_Escape, 0, "window.close", NULL);
}

static void findings_init(PrimeknetFindings *self) {
    gtk_widget_init_template(GTK_WIDGET(self));
}

void findings_open(GtkWindow *parent) {
    PrimeknetFindings *self = g_object_new(FINDINGS_TYPE, "transient-for", parent, NULL);
    look(self);
    gtk_window_present(GTK_WINDOW(self));
}
