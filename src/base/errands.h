/* errands.h - work that may take seconds, such as writing a file to a disk that stalls, on a thread of its own: one
 * errand after the other, in the order in which they were sent.
 *
 * Threads: everything on one. */
#ifndef PRIMEKNET_ERRANDS_H
#define PRIMEKNET_ERRANDS_H

#include "base/err.h"

#include <stddef.h>

struct errands;

int errands_open(struct errands **ret, struct err *err);
/* Waits until all is run, and calls no `done` any more. NULL is fine. */
void errands_close(struct errands *e);

/* Calls run with a copy of the n bytes at data on the thread and then, from errands_dispatch, done with the same copy.
 * done may be NULL. If e is NULL, both are called at once. 0 or -ENOMEM. */
int errands_send(struct errands *e, void (*run)(void *data), void (*done)(void *data), const void *data, size_t n);

/* Writes a file as file_write does, which nobody waits for. */
void errands_write(struct errands *e, const char *path, const char *text);

int errands_fd(const struct errands *e); /* readable: call errands_dispatch */
void errands_dispatch(struct errands *e);

#endif
