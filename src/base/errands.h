/* errands.h - a thread for jobs that may take seconds, such as writing a file to a stalled disk. It runs them one by
 * one, in the order in which they were sent.
 *
 * Threads: call all functions on one thread. */
#ifndef PRIMEKNET_ERRANDS_H
#define PRIMEKNET_ERRANDS_H

#include "base/err.h"

#include <stddef.h>

struct errands;

int errands_open(struct errands **ret, struct err *err);
/* Waits for all jobs, without calling `done` for them. e may be NULL. */
void errands_close(struct errands *e);

/* Copies the n bytes at data. The thread calls run with the copy; then errands_dispatch calls done, which may be NULL,
 * with the same copy. If e is NULL, both are called immediately. Returns 0 or -ENOMEM. */
int errands_send(struct errands *e, void (*run)(void *data), void (*done)(void *data), const void *data, size_t n);

/* Writes a file with file_write on the thread, and ignores errors. */
void errands_write(struct errands *e, const char *path, const char *text);

int errands_fd(const struct errands *e); /* readable: call errands_dispatch */
void errands_dispatch(struct errands *e);

#endif
