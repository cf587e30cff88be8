/* stall.h - detects whether blocks pass from the microphone to the recorders, and decides what to do if they do not,
 * whatever the cause. Pure functions; node.c calls them and carries out the actions.
 *
 * While the graph does not run, time counts STALL_STANDING times more slowly. So a microphone that starts within three
 * seconds is not a stall, but a graph that never runs is one: another client may have paused a part of it. After each
 * action, the streams get twice as much time as before, up to STALL_MAX_MS. The watch may stop and restart in between,
 * because an action removes the links for a moment.
 *
 * Threads: none. */
#ifndef PRIMEKNET_STALL_H
#define PRIMEKNET_STALL_H

#include <stdbool.h>

#define STALL_TICK_MS 100  /* between two calls of stall_tick */
#define STALL_FIRST_MS 300 /* without a block before the first action */
#define STALL_MAX_MS 80000
#define STALL_STANDING 10

enum stall_action {
    STALL_WAIT,
    STALL_FLUSH,  /* empty the streams' queues and converters; links stay */
    STALL_REOPEN, /* reopen the streams */
};

/* All zeros: nobody records. */
struct stall {
    bool watched; /* somebody records, and a microphone is linked */
    bool passes;  /* a block has passed in the last STALL_FIRST_MS, after the watch started */
    unsigned n;   /* total number of actions */
    /* Private. */
    unsigned n_blocks, n_cycles;
    unsigned missing; /* ticks since the last block */
    unsigned waited;  /* of these, since the last action, in STALL_STANDING parts of a tick in which the graph ran */
    unsigned tried;   /* actions since the last block, or since stall_forget */
};

/* Starts or stops the watch. n_blocks, n_cycles: as in stall_tick. Returns whether `passes` has changed. */
bool stall_watch(struct stall *s, bool watched, unsigned n_blocks, unsigned n_cycles);
/* Resets the time limits, because nobody records any more. */
void stall_forget(struct stall *s);
/* Returns the action to take. Call it every STALL_TICK_MS while s->watched. n_blocks counts the blocks that have
 * passed, n_cycles the graph's cycles, both modulo 2^32. */
enum stall_action stall_tick(struct stall *s, unsigned n_blocks, unsigned n_cycles);

#endif
