/* engine.h - the contract of everything that runs the network: hops of samples in, enhanced hops out.
 *
 * An engine holds one model and n streams. Each stream has its own controls and its own state: analysis and overlap-add
 * buffers, convolution inputs, recurrent states. Zero state is a fresh stream. While all frames of a stream are digital
 * silence (a muted microphone), silence comes out and the network does not run: one that has heard silence lets the
 * noise after it through, one that has not remembers voice and noise from before.
 *
 * Delay: every hop of H samples in gives H samples out. Output sample i of a stream belongs to input sample i -
 * engine_delay(), where the delay is the synthesis window less a hop.
 *
 * Threads: open, close and engine_threads on any thread, but not during another call; engine_control on any thread at
 * any time; the others on one thread at a time. In the null and CPU engines engine_process and what follows it are
 * real-time safe: they do not allocate, lock or print. */
#ifndef PRIMEKNET_ENGINE_H
#define PRIMEKNET_ENGINE_H

#include "base/err.h"

#include <stdbool.h>

/* The share of a block's time that the p99 of its hops may take where they must be done in time. The rest is for the
 * audio graph, other programs and a slower clock. */
#define ENGINE_SHARE 0.4

struct engine;
struct model;

/* Hops of one stream. in and out: [n_hops * hop] samples, full scale 1.0; they may be the same array. */
struct engine_job {
    unsigned stream;
    unsigned n_hops;
    const float *in;
    float *out;
};

/* How the network's gains are applied. A stream starts with {1, 0, 0}; {0, 0, 0} gives the delayed input, sample for
 * sample. */
struct engine_controls {
    float strength;   /* the gain's exponent, 0 to 1 */
    float floor;      /* the least gain, linear, 0 to 1; 0 means none */
    float low_cut_hz; /* removes what lies below, whatever strength and floor are; 0 is off */
};

/* Options of engine_open. */
struct engine_options {
    const char *name;   /* "cpu", "cuda", "null" (only the delayed input, for tests) or "auto" (the best that opens) */
    const char *gpu;    /* cuda: a number or a UUID; NULL is 0 */
    unsigned n_streams;
    unsigned max_hops;  /* hops of one job worth computing together: 1 for live sound, more for files, for which an
                         * engine may use more memory. Jobs may have any number of hops regardless. */
    const char *isa;    /* cpu: the instruction set, named as in kernels.c; NULL is the best */
    bool exact;         /* cpu: matrix products in float even where rounded ones would be faster, for comparisons */
};

/* Opens an engine and allocates everything it needs. The model must outlive it. Returns 0 or a negative errno. */
int engine_open(struct engine **ret, const struct engine_options *options, const struct model *model, struct err *err);
void engine_close(struct engine *e); /* e may be NULL */

/* Whether the module of engine "cuda" is there, which is asked before a model is read for it: 0 or a negative errno. */
int engine_find_cuda(struct err *err);

const char *engine_name(const struct engine *e); /* for people, such as "cpu (AVX-512)" */
const char *engine_kind(const struct engine *e); /* the name in engine_options: "cpu", "cuda" or "null" */
const struct model *engine_model(const struct engine *e);
unsigned engine_streams(const struct engine *e);
unsigned engine_hop(const struct engine *e);   /* samples */
unsigned engine_delay(const struct engine *e); /* samples */
bool engine_together(const struct engine *e);  /* jobs in one call take less time than one after another */

/* Runs the jobs, at most one per stream; an engine may compute them together. Samples that are not finite count as 0.
 * Returns 0, or -EIO if the engine is lost: the outputs are then undefined, and only engine_close may follow. */
int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);

/* Lets a call use n threads, the caller's included: it computes streams side by side where one would compute them one
 * after another. 1 at first. The others inherit this thread's scheduling policy and priority; with them engine_process
 * waits for them, and is not real-time safe. Returns 0, or a negative errno and the engine has one thread. */
int engine_threads(struct engine *e, unsigned n);

/* Resets a stream to zero state; its controls stay. */
void engine_reset(struct engine *e, unsigned stream);
/* The same, but the network remembers voice and noise: for what comes after a pause. */
void engine_pause(struct engine *e, unsigned stream);
/* Whether the network ran for the stream's last hop. */
bool engine_ran(const struct engine *e, unsigned stream);

/* Writes to tail [engine_delay()] what the frames so far add to the samples after the last output. That is a fade-out:
 * if the next hop is late, add (1 - fade[i]) times the delayed input. */
void engine_tail(const struct engine *e, unsigned stream, float *tail);
/* The share of a steady signal in each sample of engine_tail, falling from about 1 to 0. */
const float *engine_fade(const struct engine *e); /* [engine_delay()] */

/* Takes effect with the next hop; overlap-add fades between the old and new controls. */
void engine_control(struct engine *e, unsigned stream, struct engine_controls controls);
float engine_strength(const struct engine *e, unsigned stream); /* as set last; any thread */

/* Releases what stays when no engine is open: a GPU's context, so that the GPU can sleep. The next engine there opens
 * more slowly. */
void engine_rest(void);

#endif
