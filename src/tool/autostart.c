#include "config.h"

#include "tool/autostart.h"

#include "base/file.h"
#include "base/state.h"
#include "control/client.h"
#include "tool/portal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DAEMON "primeknetd"

enum { START_MS = 30000, STOP_MS = 5000, POLL_MS = 50 };

static void pause_ms(int ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

bool autostart_path(char ret[AUTOSTART_PATH]) {
    static const char file[] = "autostart/" DAEMON ".desktop";
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (portal_is_needed())
        return state_path(ret, "autostart");
    if (config && config[0] == '/')
        n = snprintf(ret, AUTOSTART_PATH, "%s/%s", config, file);
    else if (home && home[0] == '/')
        n = snprintf(ret, AUTOSTART_PATH, "%s/.config/%s", home, file);
    return n >= 0 && n < AUTOSTART_PATH;
}

bool autostart_is_enabled(void) {
    char path[AUTOSTART_PATH];
    return autostart_path(path) && access(path, F_OK) == 0;
}

/* The daemon beside this program, else the one in $PATH. */
static void find_daemon(char ret[AUTOSTART_PATH]) {
    const ssize_t n = readlink("/proc/self/exe", ret, AUTOSTART_PATH - sizeof "/" DAEMON);
    char *const slash = n > 0 ? memrchr(ret, '/', (size_t)n) : NULL;
    if (slash)
        strcpy(slash, "/" DAEMON);
    if (!slash || access(ret, X_OK) < 0)
        strcpy(ret, DAEMON);
}

/* Quotes an argument as the Desktop Entry Specification requires: first for Exec, in which % is special, then as a
 * string. */
static void quote(char ret[4 * AUTOSTART_PATH], const char *path) {
    char *to = ret;
    for (*to++ = '"'; *path; path++) {
        if (strchr("\"`$\\", *path))
            to = stpcpy(to, *path == '\\' ? "\\\\\\" : "\\\\");
        if (*path == '%')
            *to++ = '%';
        *to++ = *path;
    }
    strcpy(to, "\"");
}

int autostart_enable(bool enable, struct err *err) {
    char path[AUTOSTART_PATH], program[AUTOSTART_PATH], quoted[4 * AUTOSTART_PATH], text[5 * AUTOSTART_PATH];
    const int res = portal_is_needed() ? portal_start_at_login(enable, err) : 0;
    if (res)
        return res;
    if (!autostart_path(path))
        return err_set(err, -ENOENT, "neither XDG_CONFIG_HOME nor HOME is set");
    if (!enable)
        return unlink(path) == 0 || errno == ENOENT ? 0 : err_set(err, -errno, "%s: %s", path, strerror(errno));
    find_daemon(program);
    quote(quoted, program);
    const int n = snprintf(text, sizeof text,
                           "[Desktop Entry]\nType=Application\nName=PrimeKnet\n"
                           "Comment=Enhanced Mic, the microphone without noise\nExec=%s\nNoDisplay=true\n",
                           quoted);
    return file_write(path, text, (size_t)n, err);
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* Returns the daemon's process id; 0: none runs; -1: it runs where its processes cannot be seen, as in another instance
 * of the Flatpak. */
static pid_t find_process(void) {
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    int fd;
    if (control_connect(&fd, NULL) < 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid == 0)
        peer.pid = -1;
    close(fd);
    return peer.pid;
}

static bool has_ended(pid_t pid, int within_ms) {
    for (int ms = 0; kill(pid, 0) == 0 && ms < within_ms; ms += POLL_MS)
        pause_ms(POLL_MS);
    return kill(pid, 0) < 0;
}

int autostart_stop(struct err *err) {
    const pid_t pid = find_process();
    if (pid < 0)
        return err_set(err, -EBUSY,
                       DAEMON " runs in another sandbox; end it first: "
                              "flatpak kill org.primeknet.PrimeKnet");
    if (pid == 0)
        return 0;
    kill(pid, SIGTERM);
    if (has_ended(pid, STOP_MS))
        return 0;
    kill(pid, SIGKILL);
    return has_ended(pid, STOP_MS) ? 0 : err_set(err, -ETIMEDOUT, DAEMON " does not end (process %d)", (int)pid);
}

/* Starts the daemon in its own session, so that it outlives this terminal. */
static pid_t spawn(void) {
    char program[AUTOSTART_PATH];
    find_daemon(program);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    const int null = open("/dev/null", O_RDWR);
    setsid();
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    execlp(program, DAEMON, (char *)NULL);
    _exit(127);
}

int autostart_start(struct err *err) {
    int res = autostart_stop(err), status;
    if (res)
        return res;
    const pid_t pid = spawn();
    if (pid < 0)
        return err_set(err, -errno, "fork: %s", strerror(errno));
    for (int ms = 0; ms < START_MS; ms += POLL_MS) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return err_set(err, -ECANCELED, DAEMON " ended at once; run it in a terminal to see why");
        if (find_process() == pid)
            return 0;
        pause_ms(POLL_MS);
    }
    return err_set(err, -ETIMEDOUT, DAEMON " runs, but does not answer");
}
