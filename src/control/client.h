/* client.h - the client side of the control socket (protocol.h). Any thread; calls block. Functions return 0 or
 * -errno. */
#ifndef PRIMEKNET_CONTROL_CLIENT_H
#define PRIMEKNET_CONTROL_CLIENT_H

#include "base/err.h"
#include "control/protocol.h"

#include <jansson.h>

enum { CONTROL_MAX_PATH = 128 };

/* Connects to the running daemon; close *ret with close(2). -EPERM: the program runs under sudo, so not as the daemon's
 * user. */
int control_connect(int *ret, struct err *err);
/* Checks whether something else, such as a file, is at the path of the control socket or its folder. Returns -ENOTSOCK
 * with its path, or 0. */
int control_find_obstacle(char ret[CONTROL_MAX_PATH]);
/* Sends a request and waits for the answer, which may be a refusal, as long as the daemon is alive. Returns -ETIMEDOUT
 * if the daemon has not responded for two seconds. Takes ownership of `request`; NULL gives -ENOMEM. */
int control_exchange(int fd, json_t **ret, json_t *request, struct err *err);
/* The same, but a refusal returns -EINVAL, with its message in err. */
int control_ask(int fd, json_t **ret, json_t *request, struct err *err);

/* Return the string or number of a key in an answer; "" or 0 if there is none. */
static inline const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static inline double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

#endif
