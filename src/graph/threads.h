/* threads.h - real-time threads made as PipeWire makes its own: by rtkit, or as the limits allow. */
#ifndef PRIMEKNET_THREADS_H
#define PRIMEKNET_THREADS_H

#include "graph/pipewire.h"
#include "live/rt.h"

struct threads {
    struct spa_thread_utils *utils;
    struct pw_data_loop *data_loop; /* whose priority the threads stay below */
};

/* How a worker makes its thread. t must outlive it. */
struct rt threads_rt(struct threads *t);

#endif
