/* rt.h - how a real-time thread, such as the worker, is created, raised to real-time priority and joined.
 *
 * Like PipeWire's own threads, it gets its priority from rtkit or from limits. Only code with a PipeWire context can
 * request that, and src/live is independent of PipeWire; hence this table of functions. All except `raised` run on the
 * owner's thread. Errors are -errno. */
#ifndef PRIMEKNET_RT_H
#define PRIMEKNET_RT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct rt {
    void *data;
    int (*start)(void *data, pthread_t *ret, void *(*run)(void *), void *arg);
    /* Requests real-time priority just below that of the audio loop. If it is refused, the thread continues without. It
     * may be granted after this returns, and be revoked later. */
    int (*raise)(void *data, pthread_t thread);
    /* Whether the thread with this id has it now. Any thread. */
    bool (*raised)(void *data, pid_t tid);
    void (*join)(void *data, pthread_t thread);
};

/* Plain POSIX threads; SCHED_FIFO at a low priority where limits allow it. */
extern const struct rt rt_posix;

/* `raised` by asking the kernel: the C library does not know about a priority from rtkit. */
bool rt_raised(void *data, pid_t tid);

#endif
