/* rt.h - how a real-time worker thread is made, raised and joined.
 *
 * The worker gets its priority the way PipeWire's own threads get theirs (rtkit or limits), which only the code that
 * holds the PipeWire context can do, and the code that runs the worker knows nothing of PipeWire: hence this small
 * table. All three functions are called from the thread that opens and closes the worker's owner. */
#ifndef PRIMEKNET_RT_H
#define PRIMEKNET_RT_H

#include <pthread.h>

struct rt {
    void *data;
    int (*start)(void *data, pthread_t *ret, void *(*run)(void *), void *arg);
    /* Real-time priority just below the audio loop's. 0, or -errno where it is refused: the thread then goes on
     * without. */
    int (*raise)(void *data, pthread_t thread);
    void (*join)(void *data, pthread_t thread);
};

/* Plain POSIX threads; SCHED_FIFO at a low priority where limits allow it. */
extern const struct rt rt_posix;

#endif
