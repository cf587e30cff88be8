/* rt.h - how a real-time worker thread is made, raised and joined.
 *
 * The worker gets its priority the way PipeWire's own threads get theirs (rtkit or limits), which only the code that
 * holds the PipeWire context can do, and the code that runs the worker knows nothing of PipeWire: hence this small
 * table. All but raised are called from the thread that opens and closes the worker's owner. */
#ifndef PRIMEKNET_RT_H
#define PRIMEKNET_RT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct rt {
    void *data;
    int (*start)(void *data, pthread_t *ret, void *(*run)(void *), void *arg);
    /* Asks for real-time priority just below the audio loop's: -errno where it is refused, and the thread then goes on
     * without. It may come later, and others may take it away again. */
    int (*raise)(void *data, pthread_t thread);
    /* Whether the thread of that number has it now. From any thread. */
    bool (*raised)(void *data, pid_t tid);
    void (*join)(void *data, pthread_t thread);
};

/* Plain POSIX threads; SCHED_FIFO at a low priority where limits allow it. */
extern const struct rt rt_posix;

/* As the kernel says: the C library does not know of a priority that rtkit gave. */
bool rt_raised(void *data, pid_t tid);

#endif
