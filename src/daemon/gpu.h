/* gpu.h - the state machine that decides when the daemon uses a GPU. Independent of clocks, threads and the GPU.
 *
 * The CPU's engine runs whenever the GPU's does not, so every state produces sound. engines.c keeps the timers, reports
 * the events, and performs the actions. */
#ifndef PRIMEKNET_GPU_H
#define PRIMEKNET_GPU_H

enum gpu_state {
    GPU_RESTS = 1 << 0,    /* used as soon as somebody records */
    GPU_RUNS = 1 << 1,     /* its engine is in use */
    GPU_LEAVES = 1 << 2,   /* its engine is in use until the CPU's is loaded; then it waits */
    GPU_WAITS = 1 << 3,    /* refused; tried again later */
    GPU_MISSING = 1 << 4,  /* refused until the settings are read again */
    GPU_POISONED = 1 << 5, /* after its errors, only another process can use it again */

    CPU_IN_USE = GPU_RESTS | GPU_WAITS | GPU_MISSING | GPU_POISONED,
    GPU_IN_USE = GPU_RUNS | GPU_LEAVES,
    GPU_MAY_OPEN = GPU_RESTS | GPU_WAITS | GPU_MISSING,
};

enum gpu_event {
    RECORDING,     /* somebody records, and the settings request a GPU */
    IDLE,          /* nobody has recorded for gpu_idle_s */
    LONG_IDLE,     /* nobody has recorded for gpu_release_s, or the settings request no GPU */
    SPARED,        /* the GPU should not be used: the machine runs on battery, or the GPU sleeps */
    NO_ROOM,       /* it was refused for lack of memory or time */
    ABSENT,        /* it was refused and is not available */
    BROKEN,        /* it failed while opening */
    GPU_TAKEN,     /* its engine is in use now ... */
    CPU_TAKEN,     /* ... or the CPU's is */
    LATE,          /* hops were late in too many seconds */
    EASY,          /* there is room for a heavier model */
    LOST,          /* the engine in use failed */
    RETRY_DUE,     /* it is time to try again */
    SETTINGS_READ, /* the reason for not using the GPU may be gone */
    GPU_EVENTS
};

enum gpu_action {
    LOAD_GPU = 1 << 0,      /* load the GPU's engine */
    LOAD_CPU = 1 << 1,      /* load the CPU's in its place */
    LOAD_ANOTHER = 1 << 2,  /* load the CPU's in place of one that failed */
    LOAD_LIGHTER = 1 << 3,  /* load the CPU's with a lighter model */
    LOAD_HEAVIER = 1 << 4,  /* load the CPU's with a heavier model */
    TRY_SOON = 1 << 5,      /* send RETRY_DUE in a few seconds */
    BACK_OFF = 1 << 6,      /* send RETRY_DUE after a pause that doubles each time */
    RELEASE = 1 << 7,       /* release the GPU's context, so that it can sleep */
    RESTART = 1 << 8,       /* restart the daemon once nobody records ... */
    RESTART_LATER = 1 << 9, /* ... but not soon: the GPU failed while opening, as it may again */
};

/* ROW(states, event, next state or 0 for the same, actions). Without a matching row, nothing happens. */
#define GPU_TABLE(ROW) \
    ROW(GPU_RESTS, RECORDING, 0, LOAD_GPU) \
    ROW(GPU_IN_USE, IDLE, 0, LOAD_CPU) \
    ROW(CPU_IN_USE, LONG_IDLE, 0, RELEASE) \
    ROW(GPU_IN_USE, SPARED, GPU_LEAVES, LOAD_CPU | TRY_SOON) \
    ROW(GPU_MAY_OPEN, SPARED, GPU_WAITS, TRY_SOON) \
    ROW(GPU_MAY_OPEN, NO_ROOM, GPU_WAITS, BACK_OFF) \
    ROW(GPU_MAY_OPEN, ABSENT, GPU_MISSING, 0) \
    ROW(GPU_MAY_OPEN, BROKEN, GPU_POISONED, RESTART_LATER) \
    ROW(GPU_MAY_OPEN, GPU_TAKEN, GPU_RUNS, 0) \
    ROW(GPU_LEAVES, GPU_TAKEN, GPU_RUNS, 0) \
    ROW(GPU_RUNS, CPU_TAKEN, GPU_RESTS, 0) \
    ROW(GPU_LEAVES, CPU_TAKEN, GPU_WAITS, 0) \
    ROW(GPU_IN_USE, LATE, GPU_LEAVES, LOAD_CPU | BACK_OFF) \
    ROW(CPU_IN_USE, LATE, 0, LOAD_LIGHTER) \
    ROW(CPU_IN_USE, EASY, 0, LOAD_HEAVIER) \
    ROW(GPU_IN_USE, LOST, GPU_POISONED, LOAD_ANOTHER | RESTART) \
    ROW(CPU_IN_USE, LOST, 0, LOAD_ANOTHER) \
    ROW(GPU_WAITS, RETRY_DUE, GPU_RESTS, 0) \
    ROW(GPU_WAITS | GPU_MISSING, SETTINGS_READ, GPU_RESTS, 0) \
    ROW(GPU_LEAVES, SETTINGS_READ, GPU_RUNS, 0)

struct gpu_step {
    enum gpu_state state;
    unsigned actions; /* of enum gpu_action */
};

struct gpu_step gpu_next(enum gpu_state state, enum gpu_event event);

#endif
