#include "config.h"

#include "window/link.h"

#include "control/client.h"
#include "window/problem.h"

#include <errno.h>
#include <gio/gio.h>
#include <gio/gunixinputstream.h>
#include <glib/gi18n.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { AGAIN_MS = 1000 }; /* between two attempts to connect to a daemon */

/* ---- what the daemon is doing ------------------------------------------------------------------------------------ */

struct link {
    link_told *told;
    gpointer data;
    GDataInputStream *in; /* NULL: not connected */
};

static gboolean look(gpointer data);

/* Returns why the daemon cannot be reached, in the user's language; the English line if there are no words for it. */
static char *tell_absence(const struct err *err, int res) {
    char obstacle[CONTROL_MAX_PATH] = "";
    switch (res) {
    case -ENOENT:
    case -ECONNREFUSED:
    case -EPIPE:
    case -ECONNRESET: return g_strdup(_("The service does not run."));
    case -ETIMEDOUT: return g_strdup(_("The service does not answer: it is stopped, or it hangs."));
    case -ENOTSOCK:
        control_find_obstacle(obstacle);
        return g_strdup_printf(_("%s is in the place of the service's control socket. Remove it."), obstacle);
    default: return g_strdup(err->text);
    }
}

static void lose(struct link *l, const char *why) {
    g_clear_object(&l->in);
    g_timeout_add(AGAIN_MS, look, l);
    l->told(l->data, NULL, why);
}

static void on_line(GObject *in, GAsyncResult *result, gpointer data) {
    g_autofree char *line = g_data_input_stream_read_line_finish(G_DATA_INPUT_STREAM(in), result, NULL, NULL);
    struct link *l = data;
    json_t *status = line ? json_loads(line, 0, NULL) : NULL;
    const char *refused = text_of(status, "error");
    if (!json_is_object(status) || refused[0]) {
        lose(l, refused[0] ? refused : "primeknetd has ended");
    } else {
        g_data_input_stream_read_line_async(l->in, G_PRIORITY_DEFAULT, NULL, on_line, l);
        l->told(l->data, status, NULL);
    }
    json_decref(status);
}

static gboolean look(gpointer data) {
    static const char watch[] = "{\"command\":\"" COMMAND_WATCH "\"}\n";
    struct link *l = data;
    struct err err;
    int fd, res = control_connect(&fd, &err);
    if (res < 0) {
        g_autofree char *why = res == -ENOENT || res == -ECONNREFUSED ? g_strdup(err.text) : tell_absence(&err, res);
        lose(l, why);
        return G_SOURCE_REMOVE;
    }
    g_autoptr(GInputStream) socket = g_unix_input_stream_new(fd, TRUE);
    l->in = g_data_input_stream_new(socket);
    if (send(fd, watch, strlen(watch), MSG_NOSIGNAL) < 0)
        lose(l, "primeknetd has ended");
    else
        g_data_input_stream_read_line_async(l->in, G_PRIORITY_DEFAULT, NULL, on_line, l);
    return G_SOURCE_REMOVE;
}

void link_watch(link_told *told, gpointer data) {
    static struct link only;
    only = (struct link){.told = told, .data = data};
    g_idle_add(look, &only);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct ask {
    char *what; /* the command and its subject */
    json_t *request, *answer;
    struct err err;
    int res;
    link_told *told;
    gpointer data;
};

static void ask_in_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable) {
    (void)source, (void)cancellable;
    struct ask *a = data;
    int fd;
    a->res = control_connect(&fd, &a->err);
    if (a->res == 0) {
        a->res = control_exchange(fd, &a->answer, g_steal_pointer(&a->request), &a->err);
        close(fd);
    }
    g_task_return_boolean(task, TRUE);
}

/* For each pending `what`: a queue of later requests for the same. */
static GHashTable *queues(void) {
    static GHashTable *all;
    if (!all)
        all = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)(GCallback)g_queue_free);
    return all;
}

static void carry_out(struct ask *a);

static void on_answer(GObject *source, GAsyncResult *result, gpointer data) {
    (void)source, (void)result;
    struct ask *a = data, *next = g_queue_pop_head(g_hash_table_lookup(queues(), a->what));
    if (next)
        carry_out(next);
    else
        g_hash_table_remove(queues(), a->what);
    g_autofree char *refused = json_object_get(a->answer, "error") ? problem_tell(a->answer) : NULL;
    g_autofree char *absent = a->answer ? NULL : tell_absence(&a->err, a->res);
    if (a->told)
        a->told(a->data, refused ? NULL : a->answer, refused ? refused : absent);
    g_application_release(g_application_get_default());
}

static void free_ask(gpointer data) {
    struct ask *a = data;
    g_free(a->what);
    json_decref(a->request);
    json_decref(a->answer);
    g_free(a);
}

static void carry_out(struct ask *a) {
    g_autoptr(GTask) task = g_task_new(NULL, NULL, on_answer, a);
    g_task_set_task_data(task, a, free_ask);
    g_task_run_in_thread(task, ask_in_thread);
}

void link_ask(json_t *request, link_told *told, gpointer data) {
    struct ask *a = g_new0(struct ask, 1);
    a->what = g_strconcat(text_of(request, "command"), " ", text_of(request, "name"), NULL);
    a->request = request;
    a->told = told;
    a->data = data;
    g_application_hold(g_application_get_default());
    GQueue *queue = g_hash_table_lookup(queues(), a->what);
    if (queue) {
        g_queue_push_tail(queue, a);
        return;
    }
    g_hash_table_insert(queues(), g_strdup(a->what), g_queue_new());
    carry_out(a);
}

char *link_join(const json_t *texts, const char *none) {
    g_autoptr(GString) all = g_string_new(NULL);
    const json_t *text;
    size_t i;
    json_array_foreach(texts, i, text)
        g_string_append_printf(all, i ? ", %s" : "%s", json_string_value(text));
    return g_strdup(all->len ? all->str : none);
}
