/* The control socket: whatever clients send, in any pieces, each answer is one line with one object, and the server
 * serves the next client.
 *
 * A byte: the allocation that fails, of every 256. A byte: if 1, the rest is a server's answer to our own client; else
 * the rest is a list of turns of one byte each, client (3 bits) and action (0 to 3: send as many bytes as the next byte
 * says; 4: read; 5: close; 6: end sending; 7: run the server). */
#include "config.h"

#include "fuzz.h"

#include "control/client.h"
#include "control/server.h"
#include "daemon/settings.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { N_CLIENTS = 8 };

static struct control *control;
static struct settings settings;

/* Answers like the daemon, which sets and reports settings. */
static json_t *answer_to(const char *command, const json_t *request) {
    const char *name = json_string_value(json_object_get(request, "name"));
    const char *value = json_string_value(json_object_get(request, "value"));
    struct err err = {0};
    char text[1024];
    if (strcmp(command, "set") != 0)
        return control_refuse(CODE_BAD_REQUEST, "there is no command \"%.40s\"", command);
    if (!name || !value)
        return control_refuse(CODE_BAD_REQUEST, "set takes the strings \"name\" and \"value\"");
    const int setting = settings_find(name, &err);
    if (setting < 0 || settings_set(&settings, setting, value, &err) < 0)
        return control_refuse(err.about.code, "%s", err.text);
    settings_text(&settings, setting, text, sizeof text);
    return json_pack("{s:s, s:s}", "name", settings_name(setting), "value", text);
}

static void answer(void *data, unsigned client, const char *command, const json_t *request) {
    (void)data;
    control_reply(control, client, answer_to(command, request));
}

static void open_control(void) {
    struct err err = {0};
    if (control)
        return;
    setenv("XDG_RUNTIME_DIR", fuzz_directory(), 1);
    fuzz_check(control_open(&control, answer, NULL, &err) == 0);
    fuzz_check(settings_parse(&settings, "", 0, "", &err) == 0);
}

/* ---- clients ----------------------------------------------------------------------------------------------------- */

struct heard {
    int fd; /* -1: none */
    size_t n;
    char text[1 << 16]; /* what has come and was not judged */
};

static struct heard clients[N_CLIENTS];

static bool wants_turn(void) {
    struct pollfd fd = {.fd = control_fd(control), .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

static void hear(struct heard *k) {
    const ssize_t n = recv(k->fd, k->text + k->n, sizeof k->text - k->n, MSG_DONTWAIT);
    if (n > 0)
        k->n += (size_t)n;
}

static void judge(struct heard *k) {
    for (char *end; (end = memchr(k->text, '\n', k->n));) {
        json_t *line = json_loadb(k->text, (size_t)(end - k->text), JSON_REJECT_DUPLICATES, NULL);
        fuzz_check(json_is_object(line));
        fuzz_check(!json_object_get(line, "error") == !json_object_get(line, "code"));
        json_decref(line);
        k->n -= (size_t)(end + 1 - k->text);
        memmove(k->text, end + 1, k->n);
    }
    fuzz_check(k->n < sizeof k->text);
}

static void join(struct heard *k) {
    struct err err = {0};
    if (k->fd < 0) {
        fuzz_check(control_connect(&k->fd, &err) == 0);
        k->n = 0;
        control_dispatch(control);
    }
}

static void leave(struct heard *k) {
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
}

/* Runs the server until it waits for clients; the clients read everything. */
static void turn(void) {
    for (unsigned i = 0; i < 100000 && wants_turn(); i++) {
        control_dispatch(control);
        for (unsigned k = 0; k < N_CLIENTS; k++)
            if (clients[k].fd >= 0) {
                hear(&clients[k]);
                judge(&clients[k]);
            }
    }
    fuzz_check(!wants_turn());
}

static void act(struct fuzz_input *in) {
    const unsigned what = fuzz_byte(in);
    struct heard *k = &clients[what % N_CLIENTS];
    const unsigned action = what / N_CLIENTS % 8;
    join(k);
    if (action <= 3) {
        const unsigned most = fuzz_byte(in) << action;
        const size_t n = most < in->size ? most : in->size;
        if (n)
            send(k->fd, in->data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        in->data += n;
        in->size -= n;
    } else if (action == 4) {
        hear(k);
    } else if (action == 5) {
        leave(k);
    } else if (action == 6) {
        shutdown(k->fd, SHUT_WR);
    }
    control_dispatch(control);
}

static void served(void) {
    static const char ask[] = "{\"command\":\"set\",\"name\":\"strength\",\"value\":\"0.5\"}\n";
    struct heard *k = &clients[0];
    char got[256];
    join(k);
    fuzz_check(send(k->fd, ask, strlen(ask), MSG_NOSIGNAL) == (ssize_t)strlen(ask));
    while (wants_turn())
        control_dispatch(control);
    const ssize_t n = recv(k->fd, got, sizeof got - 1, MSG_DONTWAIT);
    fuzz_check(n > 0);
    got[n] = '\0';
    fuzz_check(strcmp(got, "{\"name\":\"strength\",\"value\":\"0.5\"}\n") == 0);
    leave(k);
}

/* ---- our own client ---------------------------------------------------------------------------------------------- */

static void ask_one_that_answers(struct fuzz_input in, unsigned fail) {
    int fds[2];
    json_t *got = NULL;
    struct err err = {0};
    fuzz_check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    const int room = 1 << 20;
    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    const ssize_t n = in.size ? send(fds[1], in.data, in.size, MSG_DONTWAIT) : 0;
    fuzz_check(n == (ssize_t)in.size);
    shutdown(fds[1], SHUT_WR);
    fuzz_fail_allocation(fail);
    const int code = control_ask(fds[0], &got, json_pack("{s:s}", "command", "status"), &err);
    fuzz_fail_allocation(0);
    if (code)
        fuzz_check(code < 0 && !got && (*err.text || code == -EINVAL));
    else
        fuzz_check(json_is_object(got));
    json_decref(got);
    close(fds[0]);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    const unsigned fail = fuzz_byte(&in);
    if (size > 1 << 17)
        return 0;
    if (fuzz_byte(&in) == 1) {
        ask_one_that_answers(in, fail);
        return 0;
    }
    open_control();
    for (unsigned k = 0; k < N_CLIENTS; k++)
        clients[k].fd = -1;
    fuzz_fail_allocation(fail);
    while (in.size)
        act(&in);
    fuzz_fail_allocation(0);
    turn();
    for (unsigned k = 0; k < N_CLIENTS; k++)
        leave(&clients[k]);
    turn();
    served();
    turn();
    return 0;
}
