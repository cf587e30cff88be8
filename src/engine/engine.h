/* engine.h - the contract of everything that can run the network: hops of samples in, enhanced hops of samples out.
 *
 * An engine holds one model and n streams, each with its own state (analysis and overlap-add tails, convolution taps,
 * selective-scan state; Gu & Dao, arXiv 2312.00752) and its own controls. Zero state is a fresh stream. The first sound
 * after more than half a second of digital silence, a muted microphone's, begins a stream anew: a network that has heard
 * much of that lets the noise after it pass.
 *
 * Delay: with every hop of H samples in, H samples come out, and output sample i of a stream belongs to input sample
 * i - engine_delay(), the synthesis window's length less a hop (W - H for symmetric windows; 768 samples at 48 kHz).
 *
 * Threads: open and close anywhere, but not while another call runs; engine_process, engine_reset and engine_tail from
 * one thread at a time; engine_control from any thread at any time. engine_process, engine_reset, engine_tail and
 * engine_control of the null and CPU engines are real-time safe: they allocate, lock and print nothing. */
#ifndef PRIMEKNET_ENGINE_H
#define PRIMEKNET_ENGINE_H

#include "base/err.h"

#include <stdbool.h>

struct engine;
struct model;

/* Hops of one stream. in and out: [n_hops * hop] samples, full scale 1.0; they may be the same array. */
struct engine_job {
    unsigned stream;
    unsigned n_hops;
    const float *in;
    float *out;
};

/* What is made of the network's gains. A stream begins with strength 1 and nothing else; strength 0 and nothing else gives
 * the delayed input sample for sample. */
struct engine_controls {
    float strength;   /* in [0,1]: the gain's exponent */
    float floor;      /* in [0,1]: the least gain, linear; 0 is none */
    float low_cut_hz; /* what lies below is taken away, whatever strength and floor are; 0 is off */
};

/* How an engine is opened. */
struct engine_options {
    const char *name;   /* "cpu", "cuda", "null" (the delayed input, nothing else; the stand-in for tests) or "auto" (the
                         * best that opens) */
    const char *gpu;    /* for cuda: a number or a UUID; NULL is 0 */
    unsigned n_streams;
    unsigned max_hops;  /* of one job that are worth computing together: 1 for live sound; more for files, where an
                         * engine may need the more memory. Jobs may have any number of hops all the same. */
    const char *isa;    /* for cpu: the instruction set, as kernels.c names it; NULL is the best */
    bool exact;         /* for cpu: matrix products in float, though bfloat16 would be faster; to compare with */
};

/* The model must outlive the engine; everything is allocated here. */
int engine_open(struct engine **ret, const struct engine_options *options, const struct model *model, struct err *err);
void engine_close(struct engine *e); /* NULL is fine */

const char *engine_name(const struct engine *e); /* "cpu (AVX-512)" or the like, for people */
const char *engine_kind(const struct engine *e); /* what engine_open calls it: "cpu", "cuda" or "null" */
const struct model *engine_model(const struct engine *e);
unsigned engine_streams(const struct engine *e);
unsigned engine_hop(const struct engine *e);   /* samples */
unsigned engine_delay(const struct engine *e); /* samples */
bool engine_together(const struct engine *e);  /* jobs of one call take less time than one after another */

/* Runs the jobs: at most one a stream; an engine may compute the streams of one call together. Samples that are not
 * finite count as 0. Returns 0, or -EIO when the engine is lost: the outputs are then undefined, and only engine_close
 * may follow. */
int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);

/* Back to zero state; the controls stay. */
void engine_reset(struct engine *e, unsigned stream);

/* What the frames so far add to the engine_delay() samples after the last output: a fade-out, to be completed with
 * (1 - fade[i]) times the delayed input where the next hop is not there in time. tail: [engine_delay()]. */
void engine_tail(const struct engine *e, unsigned stream, float *tail);
/* The share of a steady signal that engine_tail still carries at each of its samples, falling from about 1 to 0. */
const float *engine_fade(const struct engine *e); /* [engine_delay()] */

/* They hold from the next hop on; overlap-add fades between them. */
void engine_control(struct engine *e, unsigned stream, struct engine_controls controls);

/* Gives back what stays when no engine is open: a GPU's context, so that it can sleep. The next engine there takes the
 * longer to open. */
void engine_rest(void);

#endif
