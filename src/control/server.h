/* server.h - the daemon's end of the control socket (protocol.h): lines come in, each is answered by one.
 *
 * What is no request is refused and changes nothing. Answers may take a while; each client has at most one request
 * pending. Where all places are taken, or the process has no file descriptors left, the client that has been silent for
 * the longest makes room, unless it waits for an answer or watches.
 *
 * Threads: the one that opened it, which calls control_dispatch whenever control_fd is readable. Nothing blocks, and
 * the memory that a client can occupy is bounded. */
#ifndef PRIMEKNET_CONTROL_SERVER_H
#define PRIMEKNET_CONTROL_SERVER_H

#include "base/err.h"

#include <jansson.h>

struct control;

enum { CONTROL_MAX_CLIENTS = 32 };

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

/* An answer that refuses a request. code: CODE_... of protocol.h. */
json_t *control_refuse(const char *code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
