/* primeknet.h - speech enhancement in real time: samples in, the same number of enhanced samples out after a fixed
 * delay.
 *
 * A handle holds a model, an engine that runs it and n streams. A stream is one signal with its own state and controls;
 * the channels of stereo sound are two streams. A fresh stream has strength 1, no floor and no low cut. Samples are
 * float, full scale 1.0, at the model's rate, which is 48 kHz in the models that come with the library. Samples that
 * are not finite count as 0.
 *
 * Threads: handles are independent of each other. For one handle, call primeknet_process and primeknet_reset from one
 * thread at a time, primeknet_close and primeknet_threads when no other call runs, and everything else from any thread
 * at any time.
 *
 * Real time: on the engine cpu every function except open, open_like, close and threads is real-time safe: it does not
 * allocate, lock, print or make system calls. primeknet_process runs the network on the calling thread, once per hop of
 * input, unless primeknet_threads gave it more. On the engine cuda it waits for the GPU.
 *
 * Functions that return int return 0 or a negative errno; -EINVAL means that an argument is wrong. */
#ifndef PRIMEKNET_H
#define PRIMEKNET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PRIMEKNET_ERROR = 512 }; /* bytes of an error line */

struct primeknet;

/* Opens a model: "small", "base", "large", "auto", or a file if the name contains a '/' or ends in ".safetensors".
 * Names are looked up in $PRIMEKNET_MODELS if that is set, else where models are installed. "auto" is the best model
 * that this machine can run in real time; the first call measures that, which takes seconds.
 *
 * engine: "cpu", "cuda", or "auto" for the best that opens. n_streams: 1 to 1024.
 *
 * block: how many samples each call of primeknet_process usually passes, 1 to 1048576. Every call must pass a multiple
 * of the greatest common divisor of block and hop; the larger that is, the shorter the delay. With block 1 calls may
 * pass any number of samples. With a multiple of the hop the delay is a hop less a sample shorter, and a GPU computes
 * the hops of a block together.
 *
 * Returns NULL on failure and writes one line to error, unless that is NULL. */
struct primeknet *primeknet_open(const char *model, const char *engine, unsigned n_streams, unsigned block,
                                 char error[PRIMEKNET_ERROR]);

/* Opens another handle with the same model and engine. The handles share the model's weights and may be closed in any
 * order. */
struct primeknet *primeknet_open_like(const struct primeknet *p, unsigned n_streams, unsigned block,
                                      char error[PRIMEKNET_ERROR]);

void primeknet_close(struct primeknet *p); /* p may be NULL */

unsigned primeknet_rate(const struct primeknet *p);      /* Hz */
unsigned primeknet_hop(const struct primeknet *p);       /* samples that the network processes at once */
unsigned primeknet_delay(const struct primeknet *p);     /* samples between input and output */
const char *primeknet_engine(const struct primeknet *p); /* what it runs on: "cpu" or "cuda" */
const char *primeknet_about(const struct primeknet *p);  /* for people, such as "base on cpu (AVX-512)" */

/* Passes n samples of each stream: in[stream] and out[stream] are arrays of n samples, which may be the same array but
 * must not overlap otherwise. A stream whose in[stream] is NULL is left alone. An engine may compute the streams of one
 * call together.
 *
 * Returns -EIO if the engine is lost, for example because a GPU failed: the outputs are then silent, now and in all
 * later calls. */
int primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n);

/* Sets how the network's gains are applied, from the next hop on, without a click. strength: the gain's exponent, 0
 * (the delayed input) to 1. floor_db: the least gain, 0 or less; -INFINITY is none. low_cut_hz: removes what lies
 * below, whatever the strength, up to half the rate; 0 is off. */
int primeknet_control(struct primeknet *p, unsigned stream, float strength, float floor_db, float low_cut_hz);

/* The automatic level: brings speech to `target`, a loudness from -32 to -14 LUFS (usually -23), or is off where that is
 * NAN, as at first. Streams `stream` to stream + n_channels - 1 are then channels of one sound, with one gain: pass them
 * in the same calls. The gain, -12 to +18 dB, moves with time constants of 1 s of speech down and 3 s up, and holds in
 * pauses. True peaks stay below -1 dBTP, without more delay. At strength 0 the input is not levelled. */
int primeknet_level(struct primeknet *p, unsigned stream, unsigned n_channels, float target);

/* Lets calls of primeknet_process use n threads, the caller's included, for the streams of one call: on the engine cpu,
 * n streams or more on n cores take up to n times less time. 1 at first. The others inherit this thread's scheduling
 * policy and priority and sleep between calls; with them primeknet_process makes system calls and waits. Elsewhere it
 * makes no difference. Returns 0, or a negative errno if there can be no such threads, and then there are none. */
int primeknet_threads(struct primeknet *p, unsigned n);

/* Makes a stream fresh; its controls stay. */
int primeknet_reset(struct primeknet *p, unsigned stream);

/* The probability, 0 to 1, that the last hop of the stream's output is speech: above 0.5 somebody probably speaks. NAN:
 * unknown, because no hop is complete yet or the strength is 0; a high floor makes noise count as speech. To learn it
 * of every hop, pass no more than a hop per call. */
float primeknet_voice(const struct primeknet *p, unsigned stream);

#ifdef __cplusplus
}
#endif

#endif
