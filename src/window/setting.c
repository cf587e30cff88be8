#include "config.h"

#include "window/setting.h"

#include "window/link.h"
#include "window/problem.h"

#include <glib/gi18n.h>
#include <string.h>

enum { REST_MS = 500 };

/* ---- from the user to the daemon --------------------------------------------------------------------------------- */

static void send_next(struct setting *s);

/* Keeps the program running until the value is saved. */
static void cancel_rest(struct setting *s) {
    if (!s->rest)
        return;
    g_clear_handle_id(&s->rest, g_source_remove);
    g_application_release(g_application_get_default());
}

static void on_answer(gpointer data, json_t *answer, const char *error) {
    struct setting *s = data;
    (void)answer;
    s->under_way = FALSE;
    if (error) {
        cancel_rest(s);
        s->to_set = s->to_keep = FALSE;
        gtk_widget_activate_action(s->data, "win.say", "s", error);
        s->refused(s->data);
    }
    send_next(s);
}

/* Sends one request at a time, so that the last value arrives last. */
static void send_next(struct setting *s) {
    if (s->under_way || (!s->to_set && !s->to_keep))
        return;
    link_ask(json_pack("{s:s, s:s, s:s, s:b}", "command", COMMAND_SET, "name", s->name, "value", s->value, "save",
                       s->to_keep),
             on_answer, s);
    s->under_way = TRUE;
    s->to_set = s->to_keep = FALSE;
}

static gboolean on_rest(gpointer data) {
    struct setting *s = data;
    s->rest = 0;
    s->to_keep = TRUE;
    send_next(s);
    g_application_release(g_application_get_default());
    return G_SOURCE_REMOVE;
}

static double lower(const struct setting *s) {
    return gtk_adjustment_get_lower(gtk_range_get_adjustment(s->scale));
}

static void on_moved(struct setting *s) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    if (s->filling)
        return;
    g_free(s->value);
    if (s->scale) {
        double value = gtk_range_get_value(s->scale);
        gboolean least = s->least && value <= lower(s);
        s->value = g_strdup(least ? s->least : g_ascii_formatd(number, sizeof number, "%.4g", value));
    } else if (s->toggle) {
        s->value = g_strdup(gtk_switch_get_active(s->toggle) ? s->on : s->off);
    } else {
        guint chosen = adw_combo_row_get_selected(ADW_COMBO_ROW(s->row));
        s->value = g_strdup(chosen < g_strv_length(s->offered) ? s->offered[chosen] : s->extra);
    }
    cancel_rest(s);
    s->rest = g_timeout_add(REST_MS, on_rest, s);
    g_application_hold(g_application_get_default());
    s->to_set = TRUE;
    send_next(s);
}

/* ---- from the daemon to the user --------------------------------------------------------------------------------- */

static void show_choice(struct setting *s, const char *value) {
    guint at = 0, n = g_strv_length(s->offered);
    while (at < n && strcmp(s->offered[at], value) != 0)
        at++;
    if (s->extra && (at < n || strcmp(s->extra, value) != 0)) {
        gtk_string_list_remove(s->titles, n);
        g_clear_pointer(&s->extra, g_free);
    }
    if (at == n && !s->extra) {
        s->extra = g_strdup(value);
        gtk_string_list_append(s->titles, s->extra_title ? s->extra_title : value);
    }
    adw_combo_row_set_selected(ADW_COMBO_ROW(s->row), at);
}

void setting_label(GtkButton *button, const char *label) {
    g_autofree char *plain = g_strdup(label);
    char *to = plain;
    for (const char *from = label; *from; from++)
        if (*from != '_')
            *to++ = *from;
    *to = '\0';
    gtk_button_set_label(button, label);
    gtk_accessible_update_property(GTK_ACCESSIBLE(button), GTK_ACCESSIBLE_PROPERTY_LABEL, plain, -1);
}

void setting_turn(GtkSwitch *toggle, gboolean on) {
    if (gtk_switch_get_active(toggle) != on)
        gtk_switch_set_active(toggle, on);
}

/* A number is a kind of on, to which the switch returns. */
static void show_state(struct setting *s, const json_t *value) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    if (json_is_number(value))
        s->on = g_intern_string(g_ascii_dtostr(number, sizeof number, json_number_value(value)));
    setting_turn(s->toggle, json_is_number(value) || strcmp(json_string_value(value), s->off) != 0);
}

void setting_show(struct setting *s, const json_t *status, const char *text) {
    const json_t *value = json_object_get(json_object_get(status, "settings"), s->name);
    g_autofree char *missing = problem_tell_all(status, KIND_MISSING, s->name);
    if (s->row)
        adw_action_row_set_subtitle(s->row, missing ? missing : text);
    if (s->under_way || s->rest || !value) /* the user is changing it */
        return;
    s->filling = TRUE;
    if (s->scale)
        gtk_range_set_value(s->scale, json_is_number(value) ? json_number_value(value) : lower(s));
    else if (s->toggle)
        show_state(s, value);
    else
        show_choice(s, json_string_value(value));
    s->filling = FALSE;
}

void setting_offer(struct setting *s, const char *const *values, const char *const *titles) {
    if (s->offered && g_strv_equal(values, (const char *const *)s->offered))
        return;
    s->filling = TRUE;
    g_strfreev(s->offered);
    s->offered = g_strdupv((char **)(gpointer)values);
    g_clear_pointer(&s->extra, g_free);
    gtk_string_list_splice(s->titles, 0, g_list_model_get_n_items(G_LIST_MODEL(s->titles)), titles);
    s->filling = FALSE;
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static char *format_value(GtkScale *scale, double value, gpointer data) {
    struct setting *s = data;
    (void)scale;
    if (s->least && value <= lower(s))
        return g_strdup(_("off"));
    return g_strdup_printf(s->format, value);
}

void setting_open(struct setting *s) {
    s->on = s->on ? s->on : "true";
    s->off = s->off ? s->off : "false";
    if (s->scale) {
        gtk_scale_set_format_value_func(GTK_SCALE(s->scale), format_value, s, NULL);
        g_signal_connect_swapped(s->scale, "value-changed", G_CALLBACK(on_moved), s);
    } else if (s->toggle) {
        g_signal_connect_swapped(s->toggle, "notify::active", G_CALLBACK(on_moved), s);
    } else {
        s->titles = gtk_string_list_new(NULL);
        adw_combo_row_set_model(ADW_COMBO_ROW(s->row), G_LIST_MODEL(s->titles));
        g_signal_connect_swapped(s->row, "notify::selected", G_CALLBACK(on_moved), s);
    }
}
