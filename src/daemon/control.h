/* control.h - the daemon's control socket, both ends: each request and each answer is one line with one JSON object.
 *
 * It is $XDG_RUNTIME_DIR/primeknet/control, in a directory that only the user can enter. A request is
 * {"command": NAME, ...}. If it is refused, its answer has the member "error", a line for people. Any other line is
 * refused in the same way and changes nothing. Answers may take a while; each client has at most one request pending.
 * Where all places are taken, or the process has no file descriptors left, the client that has been silent for the
 * longest makes room, unless it waits for an answer or watches.
 *
 * Threads: the server's calls on the thread that opened it, which calls control_dispatch whenever control_fd is
 * readable. None of them blocks, and the memory that a client can occupy is bounded. The client's calls block. */
#ifndef PRIMEKNET_CONTROL_H
#define PRIMEKNET_CONTROL_H

#include "base/err.h"

#include <jansson.h>

struct control;

enum {
    CONTROL_MAX_CLIENTS = 32,
    CONTROL_MAX_LINE = 16384, /* bytes of a request, its end included */
    CONTROL_MAX_PATH = 128,
};

/* Handles one request, an object with the string "command". It must be answered once by control_reply, now or later.
 * Until then no further request of this client is read; other clients are served. */
typedef void control_request(void *data, unsigned client, const char *command, const json_t *request);
/* Takes ownership of the answer; NULL means out of memory and disconnects the client. If the client has hung up, the
 * answer is dropped. */
void control_reply(struct control *c, unsigned client, json_t *answer);

/* From now on each control_changed makes a request "watch" for this client, which must be answered at once; its
 * `request` is NULL. A client that reads slowly gets one answer for several changes. */
void control_watch(struct control *c, unsigned client);
void control_changed(struct control *c);

/* Replaces the socket of a daemon that crashed; -EADDRINUSE if another one runs. */
int control_open(struct control **ret, control_request *request, void *data, struct err *err);
void control_close(struct control *c); /* NULL is fine; removes the socket */
int control_fd(const struct control *c);
void control_dispatch(struct control *c);

/* An answer that refuses a request. */
json_t *control_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Connects to the running daemon, for control_ask; close with close(2). -EPERM: run by sudo, so not as the daemon's
 * user. */
int control_connect(int *ret, struct err *err);
/* What is in the place of the control socket or its folder: a file, say. -ENOTSOCK with its path, or 0. */
int control_find_obstacle(char ret[CONTROL_MAX_PATH]);
/* Asks and waits for the answer while the daemon is alive; once it has not responded for two seconds, -ETIMEDOUT. A
 * refusal is -EINVAL, with its line in err. Takes ownership of `request`; NULL is -ENOMEM. */
int control_ask(int fd, json_t **ret, json_t *request, struct err *err);

/* The text or number of a key in an answer; "" or 0 if there is none. */
static inline const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static inline double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

#endif
