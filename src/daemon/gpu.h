/* gpu.h - what stands between the daemon and a GPU: a state, and what happens to it. Knows no clock, thread or GPU.
 *
 * The CPU's engine stands in wherever the GPU's does not run, so every state has sound. engines.c keeps the timers,
 * tells what has happened and does what is then to be done. */
#ifndef PRIMEKNET_GPU_H
#define PRIMEKNET_GPU_H

enum gpu_state {
    GPU_RESTS = 1 << 0,    /* used as soon as somebody records */
    GPU_RUNS = 1 << 1,     /* its engine is in use */
    GPU_LEAVES = 1 << 2,   /* the same, until the CPU's engine is loaded; then it waits */
    GPU_WAITS = 1 << 3,    /* refused; tried again later */
    GPU_MISSING = 1 << 4,  /* refused until the settings are read again */
    GPU_POISONED = 1 << 5, /* its errors have poisoned this process: only another process can use it again */

    CPU_IN_USE = GPU_RESTS | GPU_WAITS | GPU_MISSING | GPU_POISONED,
    GPU_IN_USE = GPU_RUNS | GPU_LEAVES,
    GPU_MAY_OPEN = GPU_RESTS | GPU_WAITS | GPU_MISSING,
};

enum gpu_event {
    RECORDING,  /* somebody records, and the settings ask for a GPU */
    IDLE,       /* nobody has recorded for gpu_idle_s */
    LONG_IDLE,  /* nor for gpu_release_s, or the settings ask for no GPU */
    SPARED,     /* the GPU is to be left alone: the machine runs on battery, or the GPU sleeps */
    NO_ROOM,    /* it was refused for want of memory or of time */
    ABSENT,     /* it was refused and cannot be had */
    BROKEN,     /* it failed while it was opened */
    GPU_TAKEN,  /* its engine came into use ... */
    CPU_TAKEN,  /* ... or the CPU's did */
    LATE,       /* hops have been late for too many seconds */
    EASY,       /* there is room for a heavier model */
    LOST,       /* the engine in use failed */
    RETRY_DUE,  /* the time to try again has come */
    SETTINGS_READ, /* what kept the GPU from being used may be gone */
    GPU_EVENTS
};

enum gpu_action {
    LOAD_GPU = 1 << 0,      /* the GPU's engine */
    LOAD_CPU = 1 << 1,      /* the CPU's in its place */
    LOAD_ANOTHER = 1 << 2,  /* the CPU's in place of one that failed */
    LOAD_LIGHTER = 1 << 3,  /* the CPU's with a lighter model */
    LOAD_HEAVIER = 1 << 4,  /* the CPU's with a heavier model */
    TRY_SOON = 1 << 5,      /* RETRY_DUE in a few seconds */
    BACK_OFF = 1 << 6,      /* RETRY_DUE after a pause that doubles each time */
    RELEASE = 1 << 7,       /* the driver lets go of the GPU, so that it can sleep */
    RESTART = 1 << 8,       /* a new process, once nobody records ... */
    RESTART_LATER = 1 << 9, /* ... but not soon: the GPU failed at once, as it may in the next process */
};

/* ROW(states, event, state that follows or 0 for the same, actions). Where no row fits, nothing happens. */
#define GPU_TABLE(ROW) \
    ROW(GPU_RESTS,              RECORDING,     0,            LOAD_GPU) \
    ROW(GPU_IN_USE,             IDLE,          0,            LOAD_CPU) \
    ROW(CPU_IN_USE,             LONG_IDLE,     0,            RELEASE) \
    ROW(GPU_IN_USE,             SPARED,        GPU_LEAVES,   LOAD_CPU | TRY_SOON) \
    ROW(GPU_MAY_OPEN,           SPARED,        GPU_WAITS,    TRY_SOON) \
    ROW(GPU_MAY_OPEN,           NO_ROOM,       GPU_WAITS,    BACK_OFF) \
    ROW(GPU_MAY_OPEN,           ABSENT,        GPU_MISSING,  0) \
    ROW(GPU_MAY_OPEN,           BROKEN,        GPU_POISONED, RESTART_LATER) \
    ROW(GPU_MAY_OPEN,           GPU_TAKEN,     GPU_RUNS,     0) \
    ROW(GPU_LEAVES,             GPU_TAKEN,     GPU_RUNS,     0) \
    ROW(GPU_RUNS,               CPU_TAKEN,     GPU_RESTS,    0) \
    ROW(GPU_LEAVES,             CPU_TAKEN,     GPU_WAITS,    0) \
    ROW(GPU_IN_USE,             LATE,          GPU_LEAVES,   LOAD_CPU | BACK_OFF) \
    ROW(CPU_IN_USE,             LATE,          0,            LOAD_LIGHTER) \
    ROW(CPU_IN_USE,             EASY,          0,            LOAD_HEAVIER) \
    ROW(GPU_IN_USE,             LOST,          GPU_POISONED, LOAD_ANOTHER | RESTART) \
    ROW(CPU_IN_USE,             LOST,          0,            LOAD_ANOTHER) \
    ROW(GPU_WAITS,              RETRY_DUE,     GPU_RESTS,    0) \
    ROW(GPU_WAITS | GPU_MISSING, SETTINGS_READ, GPU_RESTS,   0) \
    ROW(GPU_LEAVES,             SETTINGS_READ, GPU_RUNS,     0)

struct gpu_step {
    enum gpu_state state;
    unsigned actions; /* of enum gpu_action */
};

struct gpu_step gpu_next(enum gpu_state state, enum gpu_event event);

#endif
