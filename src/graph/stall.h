/* stall.h - the watch over a node's sound: whether blocks pass from the microphone to who records, and what to do when
 * they do not, whatever the cause. Pure functions; node.c feeds them and carries out the answers.
 *
 * While the graph stands, time passes STALL_STANDING times more slowly: a microphone that starts within three seconds
 * is no stall, but a graph that stands for good is, since another client may have paused a part of it. Each action
 * gives the streams twice as long as the one before, up to STALL_MAX_MS. The watch may end and begin again in between,
 * since an action takes the links away for a moment.
 *
 * Threads: none. */
#ifndef PRIMEKNET_STALL_H
#define PRIMEKNET_STALL_H

#include <stdbool.h>

#define STALL_TICK_MS 100   /* between two calls of stall_tick */
#define STALL_FIRST_MS 300  /* without a block before the first action */
#define STALL_MAX_MS 80000
#define STALL_STANDING 10

enum stall_action {
    STALL_WAIT,
    STALL_FLUSH,  /* empty the streams' queues and converters; nobody's link is touched */
    STALL_REOPEN, /* open the streams anew */
};

/* All zero: nobody records. */
struct stall {
    bool watched;    /* somebody records, and a microphone is linked */
    bool passes;     /* a block has passed in the last STALL_FIRST_MS, and since the watch began */
    unsigned n;      /* actions so far, of all stalls: only grows */
    /* Private. */
    unsigned n_blocks, n_cycles;
    unsigned missing; /* ticks since the last block */
    unsigned waited;  /* of these, since the last action, in STALL_STANDING parts of a tick in which the graph ran */
    unsigned tried;   /* actions since the last block, or since stall_forget */
};

/* Begins or ends the watch. n_blocks, n_cycles: counters as in stall_tick. Returns whether `passes` has changed. */
bool stall_watch(struct stall *s, bool watched, unsigned n_blocks, unsigned n_cycles);
/* Nobody records any more: the next stall is a new one. */
void stall_forget(struct stall *s);
/* Call it every STALL_TICK_MS while s->watched. n_blocks counts blocks that have passed, n_cycles the graph's cycles,
 * both modulo 2^32. */
enum stall_action stall_tick(struct stall *s, unsigned n_blocks, unsigned n_cycles);

#endif
