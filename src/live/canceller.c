#include "config.h"

#include "live/canceller.h"

#include "base/fpu.h"
#include "base/futex.h"
#include "live/delay.h"
#include "live/ring.h"
#include "live/slots.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LOUDEST 1000.f /* louder samples are clipped, as in the engines, because cancellers compute powers */

struct canceller {
    struct aec aec;
    struct rt rt;
    pthread_t thread;
    float mic[RING], played[RING], clean[RING]; /* by position */

    /* audio thread only */
    uint64_t cycle, start, end;      /* this cycle, and the positions where its input began and ends so far */
    bool heard_played, hears_played; /* in the cycle before, in this one */
    uint64_t born;                   /* input before this position is not output */
    struct blocks blocks;
    unsigned behind; /* samples between the input's end and the output's */
    float out[BLOCK_MAX];

    /* shared by the threads */
    _Atomic uint64_t complete; /* mic and played are complete up to here: the thread may read them */
    _Atomic uint64_t done;     /* clean is complete up to here */
    _Atomic unsigned delay;
    _Atomic uint32_t posted; /* a futex */
    _Atomic bool quit;
};

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static bool all_finite(const float *x, unsigned n) {
    bool finite = true;
    for (unsigned i = 0; i < n; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

/* Processes one block. Then clears its far end, because the ring's next round may contain none. */
static void take_block(struct canceller *c, uint64_t at) {
    static const float silence[CANCELLER_BLOCK];
    float mic[CANCELLER_BLOCK], played[CANCELLER_BLOCK], out[CANCELLER_BLOCK];
    ring_get(c->mic, at, mic, CANCELLER_BLOCK);
    ring_get(c->played, at, played, CANCELLER_BLOCK);
    ring_put(c->played, at, silence, CANCELLER_BLOCK);
    c->aec.run(c->aec.data, mic, played, out);
    if (!all_finite(out, CANCELLER_BLOCK)) { /* the state is broken: renew it, and keep the echo in this block */
        c->aec.renew(c->aec.data);
        ring_get(c->mic, at - c->aec.delay, out, CANCELLER_BLOCK);
    }
    ring_put(c->clean, at, out, CANCELLER_BLOCK);
}

static void *serve(void *arg) {
    struct canceller *const c = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "primeknet echo");
    fpu_flush_denormals();
    uint64_t next = RING_START;
    unsigned told = atomic_load(&c->delay);
    while (!atomic_load(&c->quit)) {
        const uint32_t posted = atomic_load(&c->posted);
        const uint64_t complete = atomic_load_explicit(&c->complete, memory_order_acquire);
        if (complete - next > RING / 2) { /* delayed for so long that the rings may have wrapped around */
            next = complete - CANCELLER_BLOCK;
            memset(c->clean, 0, sizeof c->clean);
        }
        if (complete - next >= CANCELLER_BLOCK) {
            take_block(c, next);
            next += CANCELLER_BLOCK;
            atomic_store_explicit(&c->done, next, memory_order_release);
            continue;
        }
        const unsigned delay = atomic_load(&c->delay);
        if (delay != told)
            c->aec.changed(c->aec.data);
        told = delay;
        futex_wait(&c->posted, posted, UINT64_MAX);
    }
    return NULL;
}

static void post(struct canceller *c) {
    atomic_fetch_add(&c->posted, 1);
    futex_wake(&c->posted, 1);
}

/* ---- the audio thread -------------------------------------------------------------------------------------------- */

static void enter(struct canceller *c, uint64_t cycle) {
    if (cycle == c->cycle)
        return;
    c->cycle = cycle;
    c->start = c->end;
    c->heard_played = c->hears_played;
    c->hears_played = false;
}

static void hand_over(struct canceller *c) {
    atomic_store_explicit(&c->complete, c->end, memory_order_release);
    post(c);
}

static void put(float *ring, uint64_t at, const float *in, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        ring[(at + i) % RING] = isfinite(in[i]) ? fmaxf(-LOUDEST, fminf(in[i], LOUDEST)) : 0;
}

void canceller_played(struct canceller *c, uint64_t cycle, const float *in, unsigned n) {
    enter(c, cycle);
    c->hears_played = true;
    if (n > BLOCK_MAX || c->start < atomic_load_explicit(&c->complete, memory_order_relaxed))
        return; /* the thread has started this cycle: the previous one had no far end */
    put(c->played, c->start, in, n);
    if (c->end > c->start)
        hand_over(c);
}

/* Reads n samples from a position on: without echo or, where that is late, the microphone's own. */
static void read_at(const struct canceller *c, uint64_t at, float *out, unsigned n) {
    const bool done = at + n <= atomic_load_explicit(&c->done, memory_order_acquire);
    ring_get(done ? c->clean : c->mic, done ? at : at - c->aec.delay, out, n);
    for (unsigned i = 0; i < n && at + i < c->born + c->aec.delay; i++)
        out[i] = 0;
}

const float *canceller_process(struct canceller *c, uint64_t cycle, const float *in, unsigned n) {
    if (n > BLOCK_MAX)
        return in;
    enter(c, cycle);
    put(c->mic, c->end, in, n);
    const uint64_t begun = c->end;
    c->end += n;
    if (c->hears_played || !c->heard_played) /* else it comes in a moment */
        hand_over(c);
    blocks_add(&c->blocks, n, c->end);
    /* The thread has had one cycle for all earlier input, except an incomplete block. */
    const unsigned before = c->behind, behind = c->blocks.max + CANCELLER_BLOCK;
    read_at(c, begun - behind, c->out, n);
    if (before && before != behind) { /* another quantum: a cross-fade, as far as older samples reach */
        float former[CANCELLER_BLOCK];
        unsigned n_fade = before - CANCELLER_BLOCK < n ? before - CANCELLER_BLOCK : n;
        n_fade = n_fade < CANCELLER_BLOCK ? n_fade : CANCELLER_BLOCK;
        read_at(c, begun - before, former, n_fade);
        for (unsigned i = 0; i < n_fade; i++)
            c->out[i] = former[i] + (c->out[i] - former[i]) * ((float)i / (float)n_fade);
    }
    c->behind = behind;
    atomic_store(&c->delay, behind + c->aec.delay);
    return c->out;
}

void canceller_restart(struct canceller *c) {
    c->born = c->end;
    c->behind = 0;
}

/* ---- the owner --------------------------------------------------------------------------------------------------- */

unsigned canceller_delay(const struct canceller *c) {
    return atomic_load(&c->delay);
}

int canceller_open(struct canceller **ret, const struct rt *rt, const struct aec *aec) {
    struct canceller *const c = touched(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->aec = *aec;
    c->rt = *rt;
    c->start = c->end = c->born = c->complete = c->done = RING_START;
    c->delay = CANCELLER_BLOCK + aec->delay; /* and a quantum, which is not known yet */
    const int r = rt->start(rt->data, &c->thread, serve, c);
    if (r < 0) {
        touched_free(c);
        return r;
    }
    rt->raise(rt->data, c->thread);
    *ret = c;
    return 0;
}

void canceller_close(struct canceller *c) {
    if (!c)
        return;
    atomic_store(&c->quit, true);
    post(c);
    c->rt.join(c->rt.data, c->thread);
    touched_free(c);
}
