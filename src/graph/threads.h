/* threads.h - creates real-time threads the way PipeWire does, through rtkit or within the limits. */
#ifndef PRIMEKNET_THREADS_H
#define PRIMEKNET_THREADS_H

#include "graph/pipewire.h"
#include "live/rt.h"

struct threads {
    struct spa_thread_utils *utils;
    struct pw_data_loop *data_loop; /* the threads' priority stays below this one's */
};

/* Returns the table of functions (rt.h) for such threads. t must outlive them. */
struct rt threads_rt(struct threads *t);

#endif
