/* server.h - the daemon's side of the control socket (protocol.h). Answers each line with one line.
 *
 * Refuses a line that is not a valid request. Answers may take a while; each client has at most one pending request.
 * When all places are taken, or the process runs out of file descriptors, the server disconnects the client that has
 * been idle the longest, except clients that wait for an answer or watch.
 *
 * Threads: call everything on the thread that opened the server, and control_dispatch whenever control_fd is readable.
 * No function blocks. The memory per client is bounded. */
#ifndef PRIMEKNET_CONTROL_SERVER_H
#define PRIMEKNET_CONTROL_SERVER_H

#include "base/err.h"

#include <jansson.h>

struct control;

enum { CONTROL_MAX_CLIENTS = 32 };

/* Handles one request, an object with the string "command". Answer it once with control_reply, now or later. Until then
 * the server reads no further request of this client, but serves other clients. */
typedef void control_request(void *data, unsigned client, const char *command, const json_t *request);
/* Sends an answer, and takes ownership of it. NULL means out of memory and disconnects the client. Drops the answer if
 * the client has hung up. */
void control_reply(struct control *c, unsigned client, json_t *answer);

/* From now on, each control_changed generates a request "watch" for this client, with `request` NULL; answer it at
 * once. A client that reads slowly gets one answer for several changes. */
void control_watch(struct control *c, unsigned client);
void control_changed(struct control *c);

/* Opens the socket, and replaces that of a crashed daemon. Returns 0 or -errno; -EADDRINUSE: another daemon runs. */
int control_open(struct control **ret, control_request *request, void *data, struct err *err);
void control_close(struct control *c); /* removes the socket; c may be NULL */
int control_fd(const struct control *c);
void control_dispatch(struct control *c);

/* Builds an answer that refuses a request. code: CODE_... of protocol.h. */
json_t *control_refuse(const char *code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
