#include "config.h"

#include "window/command.h"

#include <glib/gi18n.h>
#include <signal.h>
#include <sys/prctl.h>

struct run {
    command_done *done;
    gpointer data;
};

char *command_problem(GSubprocess *process, GAsyncResult *result) {
    g_autoptr(GError) error = NULL;
    g_autofree char *errors = NULL;
    if (!g_subprocess_communicate_utf8_finish(process, result, NULL, &errors, &error))
        return g_strdup(error->message);
    if (g_subprocess_get_successful(process))
        return NULL;
    return g_strdup(errors && g_strstrip(errors)[0] ? errors : _("The command failed without a message"));
}

static void on_end(GObject *process, GAsyncResult *result, gpointer data) {
    g_autofree struct run *r = data;
    g_autofree char *problem = command_problem(G_SUBPROCESS(process), result);
    r->done(r->data, problem);
}

void command_run(const char *command, command_done *done, gpointer data) {
    g_auto(GStrv) words = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GSubprocess) process = NULL;
    if (g_shell_parse_argv(command, NULL, &words, &error))
        process = g_subprocess_newv((const char *const *)words,
                                    G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_STDERR_PIPE, &error);
    if (!process) {
        done(data, error->message);
        return;
    }
    struct run *r = g_new(struct run, 1);
    *r = (struct run){done, data};
    g_subprocess_communicate_utf8_async(process, NULL, NULL, on_end, r);
}

static void end_with_parent(gpointer data) {
    (void)data;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

GSubprocess *command_start(const char *const *words, GError **error) {
    g_autoptr(GSubprocessLauncher)
        launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_STDERR_PIPE);
    g_subprocess_launcher_set_child_setup(launcher, end_with_parent, NULL, NULL);
    return g_subprocess_launcher_spawnv(launcher, words, error);
}
