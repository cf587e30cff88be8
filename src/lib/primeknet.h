/* primeknet.h - speech enhancement in real time: samples in, the same number of enhanced samples out, a fixed delay later.
 *
 * A handle is a model on an engine with n streams, each one signal with a memory and controls of its own; the channels of a
 * stereo signal are two streams. A fresh stream has strength 1, no floor and no low cut. Samples are float, full scale 1.0,
 * at the model's rate: 48 kHz for the models that come with the library. Samples that are not finite count as 0.
 *
 * Threads: handles are independent of each other. Of one handle, primeknet_process and primeknet_reset may be called from one
 * thread at a time, primeknet_control and all that reads from any thread at any time, and primeknet_close when no other call
 * runs. primeknet_open_like counts as a call that reads.
 *
 * Real time: on the engine cpu, everything but open and close is safe there: it allocates, locks and prints nothing and makes
 * no system call. primeknet_process computes in the thread that calls it, once per hop of input. On the engine cuda,
 * primeknet_process waits for the GPU.
 *
 * Functions that return int return 0 or a negative errno, -EINVAL where an argument is wrong. */
#ifndef PRIMEKNET_H
#define PRIMEKNET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PRIMEKNET_ERROR = 512 }; /* bytes for the line that tells what is wrong */

struct primeknet;

/* Opens a model: "small", "base", "large", "auto" or a file, named by a path with a '/' or ending in ".safetensors". Names are
 * looked for in $PRIMEKNET_MODELS where that is set, else where the models are installed. "auto" is the best that this machine
 * carries in real time; the first time it measures that, for seconds.
 *
 * engine: "cpu", "cuda" or "auto", the best that opens. n_streams: 1 to 1024.
 *
 * block: how many samples a call of primeknet_process usually passes, 1 to 1048576. Let g be the greatest common divisor of
 * block and the hop: every call must pass a multiple of g, and the delay is the least for that. With block 1 any number may be
 * passed; with the hop, or a multiple of it, the delay is a hop shorter. A block of many hops lets a GPU compute them
 * together.
 *
 * Returns NULL on failure, with one line in error, which may be NULL. */
struct primeknet *primeknet_open(const char *model, const char *engine, unsigned n_streams, unsigned block,
                                 char error[PRIMEKNET_ERROR]);

/* Opens another handle of the same model and engine. The two share the model's weights; either may be closed first. */
struct primeknet *primeknet_open_like(const struct primeknet *p, unsigned n_streams, unsigned block,
                                      char error[PRIMEKNET_ERROR]);

void primeknet_close(struct primeknet *p); /* NULL is fine */

unsigned primeknet_rate(const struct primeknet *p);       /* Hz */
unsigned primeknet_hop(const struct primeknet *p);        /* samples that the network processes at once */
unsigned primeknet_delay(const struct primeknet *p);      /* samples between input and output */
const char *primeknet_engine(const struct primeknet *p);  /* what it runs on: "cpu" or "cuda" */
const char *primeknet_about(const struct primeknet *p);   /* for people: "base on cpu (AVX-512)" or the like */

/* Passes n samples of each stream: in[stream] and out[stream] are arrays of n samples, which may be the same array but must not
 * overlap otherwise. A stream whose in[stream] is NULL stands still. The streams of one call are computed together where the
 * engine gains from that.
 *
 * Returns -EIO where the engine is lost, as when a GPU fails: the outputs are then silent, in this call and all later ones. */
int primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n);

/* Sets what is made of the network's gains, from the next hop on, without a click. strength, 0 to 1: the exponent of the gain;
 * at 0 the output is the delayed input. floor_db, 0 or less: the least gain; -INFINITY is none. low_cut_hz: what lies below is
 * removed, whatever the strength; 0 is off. */
int primeknet_control(struct primeknet *p, unsigned stream, float strength, float floor_db, float low_cut_hz);

/* Makes the stream a fresh one; its controls stay. */
int primeknet_reset(struct primeknet *p, unsigned stream);

#ifdef __cplusplus
}
#endif

#endif
