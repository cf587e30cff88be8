#include "config.h"

#include "control/client.h"

#include "control/place.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_ANSWER = 1 << 20, /* bytes that a client accepts */
    ANSWER_S = 1, /* how long a client waits before it checks that the daemon is alive, and for the answer to that */
};

static const char silent[] = "primeknetd does not answer: it is stopped, or it hangs; primeknet setup restarts it";

int control_find_obstacle(char ret[CONTROL_MAX_PATH]) {
    struct sockaddr_un address;
    struct stat st;
    if (control_place(&address, NULL) < 0)
        return 0;
    const char *const folder = dirname(strdupa(address.sun_path));
    const bool is_file = stat(folder, &st) == 0 && !S_ISDIR(st.st_mode);
    const bool is_other = !is_file && lstat(address.sun_path, &st) == 0 && !S_ISSOCK(st.st_mode);
    strcpy(ret, is_file ? folder : is_other ? address.sun_path : "");
    return is_file || is_other ? -ENOTSOCK : 0;
}

int control_connect(int *ret, struct err *err) {
    struct sockaddr_un address;
    int res = control_place(&address, err);
    if (res)
        return res;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval timeout = {.tv_sec = ANSWER_S};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        res = -errno;
        char obstacle[CONTROL_MAX_PATH];
        if (fd >= 0)
            close(fd);
        if (control_find_obstacle(obstacle))
            return err_set(err, -ENOTSOCK, "%s is in the place of primeknetd's control socket; remove it", obstacle);
        if (res == -ENOENT || res == -ECONNREFUSED)
            return err_set(err, res, "primeknetd is not running; primeknet setup starts it");
        if (res == -EAGAIN)
            return err_set(err, -ETIMEDOUT, "%s", silent);
        return err_set(err, res, "%s: %s", address.sun_path, strerror(-res));
    }
    *ret = fd;
    return 0;
}

static int send_all(int fd, const char *text, size_t n) {
    while (n > 0) {
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -errno;
        text += sent;
        n -= (size_t)sent;
    }
    return 0;
}

/* Whether the daemon answers another request in the meantime. */
static bool is_alive(void) {
    static const char ask[] = "{\"command\":\"" COMMAND_STATUS "\"}\n";
    char answer;
    int fd;
    if (control_connect(&fd, NULL) < 0)
        return false;
    bool alive = send_all(fd, ask, strlen(ask)) == 0 && recv(fd, &answer, 1, 0) == 1;
    close(fd);
    return alive;
}

/* Reads one line; nothing can follow it before the next request. Waits as long as the daemon is alive, because loading
 * a large model takes a while. The caller owns *ret. */
static int receive_line(int fd, char **ret) {
    size_t n = 0, size = 0;
    char *text = NULL;
    int res = 0;
    while (res == 0 && (n == 0 || text[n - 1] != '\n')) {
        if (n == size) {
            size = size ? 2 * size : 8192;
            char *longer = size <= MAX_ANSWER ? realloc(text, size) : NULL;
            if (!longer) {
                res = -EMSGSIZE;
                break;
            }
            text = longer;
        }
        ssize_t got = recv(fd, text + n, size - n, 0);
        if (got > 0)
            n += (size_t)got;
        else if (got == 0)
            res = -EPIPE;
        else if (errno == EAGAIN)
            res = is_alive() ? 0 : -ETIMEDOUT;
        else if (errno != EINTR)
            res = -errno;
    }
    if (res) {
        free(text);
        return res;
    }
    text[n - 1] = '\0';
    *ret = text;
    return 0;
}

int control_exchange(int fd, json_t **ret, json_t *request, struct err *err) {
    char *line = request ? json_dumps(request, JSON_COMPACT) : NULL, *text = NULL;
    json_decref(request);
    if (!line)
        return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    size_t n = strlen(line);
    line[n] = '\n';
    int res = send_all(fd, line, n + 1);
    free(line);
    if (res == 0 || res == -EPIPE) /* it may have answered why */
        res = receive_line(fd, &text);
    if (res == -EPIPE || res == -ECONNRESET)
        return err_set(err, res, "primeknetd has ended");
    if (res == -ETIMEDOUT || res == -EAGAIN)
        return err_set(err, -ETIMEDOUT, "%s", silent);
    if (res)
        return err_set(err, res, "primeknetd: %s", strerror(-res));
    json_t *answer = json_loads(text, 0, NULL);
    free(text);
    if (!json_is_object(answer)) {
        json_decref(answer);
        return err_set(err, -EPROTO, "primeknetd's answer is not valid");
    }
    *ret = answer;
    return 0;
}

int control_ask(int fd, json_t **ret, json_t *request, struct err *err) {
    json_t *answer = NULL;
    int res = control_exchange(fd, &answer, request, err);
    const char *refused = json_string_value(json_object_get(answer, "error"));
    if (refused) {
        res = err_set(err, -EINVAL, "%s", refused);
        json_decref(answer);
    } else if (res == 0) {
        *ret = answer;
    }
    return res;
}
