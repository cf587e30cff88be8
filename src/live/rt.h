/* rt.h - how the worker's thread is created, given real-time priority and joined.
 *
 * The thread gets its priority as PipeWire's own threads do, from rtkit or from limits. Only code that holds a PipeWire
 * context can ask for it, and src/live knows nothing of PipeWire: hence this table. All but `raised` run on the owner's
 * thread. Errors are -errno. */
#ifndef PRIMEKNET_RT_H
#define PRIMEKNET_RT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct rt {
    void *data;
    int (*start)(void *data, pthread_t *ret, void *(*run)(void *), void *arg);
    /* Asks for real-time priority just below the audio loop's. Where it is refused the thread goes on without. It may
     * come later than this returns, and others may take it away again. */
    int (*raise)(void *data, pthread_t thread);
    /* Whether the thread with that number has it now. From any thread. */
    bool (*raised)(void *data, pid_t tid);
    void (*join)(void *data, pthread_t thread);
};

/* Plain POSIX threads; SCHED_FIFO at a low priority where limits allow it. */
extern const struct rt rt_posix;

/* `raised`, as the kernel says: the C library does not know of a priority that rtkit gave. */
bool rt_raised(void *data, pid_t tid);

#endif
