/* client.h - a client's end of the control socket (protocol.h). Any thread; calls block. */
#ifndef PRIMEKNET_CONTROL_CLIENT_H
#define PRIMEKNET_CONTROL_CLIENT_H

#include "base/err.h"
#include "control/protocol.h"

#include <jansson.h>

enum { CONTROL_MAX_PATH = 128 };

/* Connects to the running daemon, for control_ask; close with close(2). -EPERM: run by sudo, so not as the daemon's
 * user. */
int control_connect(int *ret, struct err *err);
/* What is in the place of the control socket or its folder: a file, say. -ENOTSOCK with its path, or 0. */
int control_find_obstacle(char ret[CONTROL_MAX_PATH]);
/* Asks and waits for the answer, which may be a refusal, while the daemon is alive; once it has not responded for two
 * seconds, -ETIMEDOUT. Takes ownership of `request`; NULL is -ENOMEM. */
int control_exchange(int fd, json_t **ret, json_t *request, struct err *err);
/* The same, but a refusal is -EINVAL, with its line in err. */
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
