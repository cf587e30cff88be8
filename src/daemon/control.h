/* control.h - the daemon's control socket, both ends: a line with one JSON object asks, a line with one answers.
 *
 * $XDG_RUNTIME_DIR/primeknet/control, in a directory that is the user's alone. A request is {"command": NAME, ...}; its
 * answer has the member "error", a line for people, where it was refused. What is no such line is refused in the same
 * way and changes nothing. An answer may take its time; a client has one request at most under way.
 *
 * Threads: the server on the thread that opened it, which calls control_dispatch whenever control_fd is readable; no
 * call of the server's blocks, and what a client can make it keep is bounded. The client's calls block. */
#ifndef PRIMEKNET_CONTROL_H
#define PRIMEKNET_CONTROL_H

#include "base/err.h"

#include <jansson.h>

struct control;

enum {
    CONTROL_MAX_CLIENTS = 32,
    CONTROL_MAX_LINE = 16384, /* bytes of a request, its end included */
};

/* Takes one request, an object with the string "command". It is to be answered once by control_reply, at once or
 * later; until then nothing more is taken from its client, and others are served. */
typedef void control_request(void *data, unsigned client, const char *command, const json_t *request);
/* Takes the answer over; NULL: out of memory, the client is cut off. One that has hung up does not hear it. */
void control_reply(struct control *c, unsigned client, json_t *answer);

/* From now on the client watches: each control_changed asks {"command": "watch"} for it, to be answered at once,
 * with NULL for the request. One that reads slowly gets one answer for many. */
void control_watch(struct control *c, unsigned client);
void control_changed(struct control *c);

/* The socket of a daemon that ended without goodbye is replaced, that of one that runs is -EADDRINUSE. */
int control_open(struct control **ret, control_request *request, void *data, struct err *err);
void control_close(struct control *c); /* NULL is fine; removes the socket */
int control_fd(const struct control *c);
void control_dispatch(struct control *c);

/* An answer that refuses. */
json_t *control_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The socket of a daemon that runs, for control_ask, to be closed with close(2). -EPERM: not this user's, but root's
 * by sudo. */
int control_connect(int *ret, struct err *err);
/* Asks and waits for the answer as long as the daemon is alive; where it is not -ETIMEDOUT, after two seconds. A
 * refusal is -EINVAL, with its line in err. Takes `request` over; NULL is -ENOMEM. */
int control_ask(int fd, json_t **ret, json_t *request, struct err *err);

#endif
