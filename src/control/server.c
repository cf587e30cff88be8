#include "config.h"

#include "control/server.h"

#include "base/text.h"
#include "control/place.h"
#include "control/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 16 };

/* A client has at most one answer pending: until it has read that, no further request is read. */
struct client {
    int fd;
    char in[CONTROL_MAX_LINE];
    size_t n_in;
    char *out;
    size_t n_out, n_sent;
    bool last;           /* disconnect it once it has read its answer */
    bool waits;          /* for an answer that comes later */
    bool asking;         /* its request is being handled: the caller sends the answer */
    bool watches, stale; /* it watches; a change is to be reported */
    uint64_t heard_at;   /* control.n_heard when it last sent or took something */
};

struct control {
    control_request *request;
    void *data;
    int directory, listener, epoll;
    int spare; /* a spare descriptor, to accept a client and report that there are none left */
    uint64_t n_heard;
    struct sockaddr_un address;
    struct client *clients[CONTROL_MAX_CLIENTS];
};

/* ---- the directory ----------------------------------------------------------------------------------------------- */

/* Restricts the socket's directory to the user, and locks it for as long as the daemon has its socket there. */
static int lock_directory(const struct sockaddr_un *address, struct err *err) {
    const char *path = dirname(strdupa(address->sun_path));
    struct stat st;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int res = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        res = err_set(err, -errno, "%s: %s", path, strerror(errno));
    else if (st.st_uid != geteuid())
        res = err_set(err, -EPERM, "%s belongs to another user", path);
    else if (fchmod(fd, 0700) < 0)
        res = err_set(err, -errno, "%s: %s", path, strerror(errno));
    else if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        res = errno == EWOULDBLOCK ? err_set(err, -EADDRINUSE, "primeknetd runs already: it has %s", path)
                                   : err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (res && fd >= 0)
        close(fd);
    return res ? res : fd;
}

/* ---- the server's clients ---------------------------------------------------------------------------------------- */

json_t *control_refuse(const char *code, const char *format, ...) {
    char text[2 * sizeof(struct err)], clean[sizeof text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_copy(clean, sizeof clean, text); /* names may be cut anywhere, and those of files may hold any bytes */
    return json_pack("{s:s, s:s}", "error", clean, "code", code);
}

static void queue(struct client *k, json_t *answer) {
    char *text = answer ? json_dumps(answer, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(answer);
    if (!text) {
        k->last = true;
        return;
    }
    k->out = text;
    k->n_out = strlen(text) + 1;
    text[k->n_out - 1] = '\n';
    k->n_sent = 0;
}

/* Whether the client is still connected. */
static bool send_queued(struct client *k) {
    while (k->out) {
        ssize_t n = send(k->fd, k->out + k->n_sent, k->n_out - k->n_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        k->n_sent += (size_t)n;
        if (k->n_sent == k->n_out) {
            free(k->out);
            k->out = NULL;
        }
    }
    return true;
}

static void ask(struct control *c, unsigned slot, const char *command, const json_t *request) {
    struct client *k = c->clients[slot];
    k->waits = k->asking = true;
    c->request(c->data, slot, command, request);
    k->asking = false;
}

static void ask_line(struct control *c, unsigned slot, const char *line, size_t n) {
    json_error_t error;
    json_t *request = json_loadb(line, n, JSON_REJECT_DUPLICATES, &error);
    const char *command = json_string_value(json_object_get(request, "command"));
    if (command)
        ask(c, slot, command, request);
    else
        queue(c->clients[slot],
              request ? control_refuse(CODE_BAD_REQUEST, "a request is an object with the string \"command\"")
                      : control_refuse(CODE_BAD_REQUEST, "this is not JSON: %s", error.text));
    json_decref(request);
}

/* Handles the first line received, or reports a change to a watching client. One per turn, so that the daemon can do
 * other work. */
static void ask_next(struct control *c, unsigned slot) {
    struct client *k = c->clients[slot];
    char *end = memchr(k->in, '\n', k->n_in);
    if (end) {
        size_t n = (size_t)(end - k->in);
        ask_line(c, slot, k->in, n);
        k->n_in -= n + 1;
        memmove(k->in, end + 1, k->n_in);
    } else if (k->n_in == sizeof k->in) {
        queue(k, control_refuse(CODE_BAD_REQUEST, "this line is longer than %d bytes", CONTROL_MAX_LINE));
        k->n_in = 0;
        k->last = true;
    } else if (k->stale) {
        k->stale = false;
        ask(c, slot, COMMAND_WATCH, NULL);
    }
}

static void drop(struct client **k) {
    close((*k)->fd);
    free((*k)->out);
    free(*k);
    *k = NULL;
}

/* What to wait for: room for the answer (or, with something left to answer or to tell, just the next turn), else the
 * next line. */
static int watch(const struct control *c, const struct client *k, unsigned slot, int operation) {
    if (k->waits) /* until its answer is there */
        return epoll_ctl(c->epoll, EPOLL_CTL_DEL, k->fd, NULL);
    bool more = k->out || k->stale || memchr(k->in, '\n', k->n_in);
    struct epoll_event event = {.events = more ? EPOLLOUT : EPOLLIN, .data.u32 = slot};
    return epoll_ctl(c->epoll, operation, k->fd, &event);
}

static bool serve(struct control *c, unsigned slot) {
    struct client *k = c->clients[slot];
    k->heard_at = ++c->n_heard;
    if (!k->out && !memchr(k->in, '\n', k->n_in) && !k->last) {
        ssize_t n = recv(k->fd, k->in + k->n_in, sizeof k->in - k->n_in, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n > 0)
            k->n_in += (size_t)n;
    }
    if (!k->out)
        ask_next(c, slot);
    return send_queued(k) && (k->out || !k->last);
}

/* Disconnects the client that has been idle the longest, except clients that wait for an answer, or watch and read. */
static void make_room(struct control *c) {
    struct client **silent = NULL;
    for (unsigned i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        struct client **k = &c->clients[i];
        if (*k && !(*k)->waits && (!(*k)->watches || (*k)->out) && (!silent || (*k)->heard_at < (*silent)->heard_at))
            silent = k;
    }
    if (silent)
        drop(silent);
}

static unsigned free_slot(const struct control *c) {
    unsigned slot = 0;
    while (slot < CONTROL_MAX_CLIENTS && c->clients[slot])
        slot++;
    return slot;
}

static int accept_next(const struct control *c) {
    return accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void keep_spare(struct control *c) {
    if (c->spare < 0)
        c->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void refuse_client(int fd, const char *why) {
    char answer[128];
    const int n = snprintf(answer, sizeof answer, "{\"error\":\"%s\",\"code\":\"" CODE_BUSY "\"}\n", why);
    send(fd, answer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* Accepts a client; returns false if none is waiting. Each client gets a place, or an answer that says why not. */
static bool admit(struct control *c) {
    int fd = accept_next(c);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && c->spare >= 0) {
        close(c->spare);
        c->spare = -1;
        fd = accept_next(c);
    }
    if (fd >= 0 && free_slot(c) == CONTROL_MAX_CLIENTS)
        make_room(c);
    keep_spare(c);
    if (c->spare < 0) {
        make_room(c);
        keep_spare(c);
    }
    if (fd < 0)
        return false;
    const unsigned slot = free_slot(c);
    struct client *k = slot < CONTROL_MAX_CLIENTS && c->spare >= 0 ? calloc(1, sizeof *k) : NULL;
    if (!k) {
        refuse_client(fd, c->spare < 0 ? "primeknetd has too many files open for another client"
                                       : "primeknetd already serves as many clients as it can");
        keep_spare(c);
        return true;
    }
    k->fd = fd;
    k->heard_at = ++c->n_heard;
    c->clients[slot] = k;
    if (watch(c, k, slot, EPOLL_CTL_ADD) < 0)
        drop(&c->clients[slot]);
    return true;
}

/* Waits for the next client. Does not poll for one that could not be accepted; accepts it together with the next. */
static int listen_on(const struct control *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = CONTROL_MAX_CLIENTS};
    return epoll_ctl(c->epoll, operation, c->listener, &event);
}

/* ---- the server -------------------------------------------------------------------------------------------------- */

int control_open(struct control **ret, control_request *request, void *data, struct err *err) {
    struct control *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, -ENOMEM, "control socket: %s", strerror(ENOMEM));
    c->request = request;
    c->data = data;
    c->directory = c->listener = c->epoll = c->spare = -1;
    int res = control_place(&c->address, err);
    if (res == 0)
        res = c->directory = lock_directory(&c->address, err);
    if (res < 0)
        goto fail;

    /* We hold the lock, so an existing socket is stale. The mode is set before bind(2), so that the name gets it. */
    const struct sockaddr *address = (const struct sockaddr *)&c->address;
    if (unlink(c->address.sun_path) < 0 && errno != ENOENT) {
        res = err_set(err, -errno, "%s: %s", c->address.sun_path, strerror(errno));
        goto fail;
    }
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    keep_spare(c);
    if (c->listener < 0 || c->epoll < 0 || c->spare < 0 || fchmod(c->listener, 0600) < 0 ||
        bind(c->listener, address, sizeof c->address) < 0 || listen(c->listener, BACKLOG) < 0 ||
        listen_on(c, EPOLL_CTL_ADD) < 0) {
        res = err_set(err, -errno, "%s: %s", c->address.sun_path, strerror(errno));
        goto fail;
    }
    *ret = c;
    return 0;
fail:
    control_close(c);
    return res;
}

void control_close(struct control *c) {
    if (!c)
        return;
    for (unsigned i = 0; i < CONTROL_MAX_CLIENTS; i++)
        if (c->clients[i])
            drop(&c->clients[i]);
    if (c->listener >= 0) {
        unlink(c->address.sun_path);
        close(c->listener);
    }
    if (c->epoll >= 0)
        close(c->epoll);
    if (c->spare >= 0)
        close(c->spare);
    if (c->directory >= 0)
        close(c->directory);
    free(c);
}

int control_fd(const struct control *c) {
    return c->epoll;
}

void control_dispatch(struct control *c) {
    struct epoll_event events[CONTROL_MAX_CLIENTS + 1];
    int n = epoll_wait(c->epoll, events, CONTROL_MAX_CLIENTS + 1, 0);
    bool is_called = false;
    for (int i = 0; i < n; i++) {
        unsigned slot = events[i].data.u32;
        if (slot == CONTROL_MAX_CLIENTS)
            is_called = true;
        else if (!serve(c, slot) || watch(c, c->clients[slot], slot, EPOLL_CTL_MOD) < 0)
            drop(&c->clients[slot]);
    }
    if (is_called && admit(c)) /* after the other clients, so that none with a request is disconnected */
        listen_on(c, EPOLL_CTL_MOD);
}

void control_reply(struct control *c, unsigned client, json_t *answer) {
    struct client *k = c->clients[client];
    k->waits = false;
    queue(k, answer);
    if (!k->asking && (!send_queued(k) || (!k->out && k->last) || watch(c, k, client, EPOLL_CTL_ADD) < 0))
        drop(&c->clients[client]);
}

void control_watch(struct control *c, unsigned client) {
    c->clients[client]->watches = true;
}

void control_changed(struct control *c) {
    for (unsigned i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        struct client *k = c->clients[i];
        if (!k || !k->watches)
            continue;
        k->stale = true;
        if (!k->waits && watch(c, k, i, EPOLL_CTL_MOD) < 0)
            drop(&c->clients[i]);
    }
}
