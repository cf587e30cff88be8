/* engine.h - the interface of all engines. An engine runs the network: it takes hops of samples and returns enhanced
 * hops.
 *
 * An engine holds one model and n streams. If the model has several networks, the engine runs one after another, and
 * its output is the mean of theirs (Perrone & Cooper, "When networks disagree", 1993). Each stream has its own controls
 * and its own state: analysis and overlap-add buffers, convolution inputs, recurrent states. A fresh stream has zero
 * state. While a stream's frames contain only digital silence (a muted microphone), the engine outputs silence and does
 * not run the network. Feeding it silence would make it forget the noise; skipped, it keeps its state.
 *
 * Delay: each hop of H input samples produces H output samples. Output sample i of a stream corresponds to input sample
 * i - engine_delay(); the delay is the synthesis window less a hop.
 *
 * Threads: call open, close and engine_threads on any thread, but not during another call; engine_control and
 * engine_strength on any thread at any time; the others on one thread at a time. In the null and CPU engines,
 * engine_process and the functions below it except engine_threads and engine_rest are real-time safe: they do not
 * allocate, lock or print. */
#ifndef PRIMEKNET_ENGINE_H
#define PRIMEKNET_ENGINE_H

#include "base/err.h"

#include <stdbool.h>

/* The share of a block's duration that the p99 of its hops may take for the block to be ready in time. The rest is a
 * reserve for the audio graph, other programs and a lower clock rate. */
#define ENGINE_SHARE 0.4

struct engine;
struct model;

/* Consecutive hops of one stream. in and out: [n_hops * hop] samples, full scale 1.0; they may be the same array. */
struct engine_job {
    unsigned stream;
    unsigned n_hops;
    const float *in;
    float *out;
};

/* How the network's gains are applied. A stream starts with {1, 0, 0}. With {0, 0, 0} the output is exactly the delayed
 * input. */
struct engine_controls {
    float strength;   /* the gain's exponent, 0 to 1 */
    float floor;      /* the lowest gain, linear, 0 to 1; 0: no limit */
    float low_cut_hz; /* cutoff of the high-pass filter, independent of strength and floor; 0: off */
};

/* Options of engine_open. */
struct engine_options {
    const char *name; /* "cpu", "cuda", "null" (outputs the delayed input, for tests) or "auto" (cuda, else cpu) */
    const char *gpu;  /* cuda: the GPU's number or UUID; NULL: 0 */
    unsigned n_streams;
    unsigned max_hops; /* how many hops of a job are worth computing together: 1 for live sound, more for files, for
                         * which an engine may use more memory. Does not limit the hops of a job. */
    const char *isa;   /* cpu: the instruction set, named as in kernels.c; NULL: the best */
    bool exact;        /* cpu: float matrix products even where bfloat16 or int16 is faster, for comparisons */
};

/* Opens an engine and allocates everything it needs. The model must outlive it. Returns 0 or a negative errno. */
int engine_open(struct engine **ret, const struct engine_options *options, const struct model *model, struct err *err);
void engine_close(struct engine *e); /* e may be NULL */

/* Looks for the module of the engine "cuda", to save reading a model for nothing. Returns 0 or a negative errno. */
int engine_find_cuda(struct err *err);

const char *engine_name(const struct engine *e); /* for people, such as "cpu (AVX-512)" */
const char *engine_kind(const struct engine *e); /* the name in engine_options: "cpu", "cuda" or "null" */
const struct model *engine_model(const struct engine *e);
unsigned engine_streams(const struct engine *e);
unsigned engine_hop(const struct engine *e);   /* samples */
unsigned engine_delay(const struct engine *e); /* samples */
bool engine_together(const struct engine *e);  /* one call with several jobs is faster than several calls */

/* Runs the jobs, at most one per stream; an engine may compute them together. Samples that are not finite count as 0.
 * Returns 0, or -EIO if the engine failed: the outputs are then undefined, and the only call allowed is
 * engine_close. */
int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);

/* Sets how many threads engine_process uses to run streams in parallel, the caller included; initially 1. The
 * additional threads inherit the calling thread's scheduling policy and priority. With them, engine_process waits for
 * threads and is not real-time safe. Returns 0, or a negative errno; the engine then has one thread. */
int engine_threads(struct engine *e, unsigned n);

/* Resets a stream to zero state, and keeps its controls. */
void engine_reset(struct engine *e, unsigned stream);
/* The same, but keeps the network's state, its memory of voice and noise: for sound after a pause. */
void engine_pause(struct engine *e, unsigned stream);
/* Whether the network ran for the stream's last hop. */
bool engine_ran(const struct engine *e, unsigned stream);

/* Writes to tail [engine_delay()] what the frames so far contribute to the samples after the last output. This is a
 * fade-out: if the next hop is late, play tail[i] + (1 - fade[i]) times the delayed input. */
void engine_tail(const struct engine *e, unsigned stream, float *tail);
/* The share of a steady signal that each sample of engine_tail contains; it falls from about 1 to 0. */
const float *engine_fade(const struct engine *e); /* [engine_delay()] */

/* Sets a stream's controls from the next hop on; overlap-add fades between the old and the new ones. */
void engine_control(struct engine *e, unsigned stream, struct engine_controls controls);
float engine_strength(const struct engine *e, unsigned stream); /* as last set; any thread */

/* Releases the contexts of GPUs on which no engine is open, so that these GPUs can sleep. The next engine there opens
 * more slowly. */
void engine_rest(void);

#endif
