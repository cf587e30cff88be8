/* primeknet.h - speech enhancement in real time: samples in, the same number of enhanced samples out after a fixed
 * delay.
 *
 *     struct primeknet *p;
 *     char error[PRIMEKNET_ERROR];
 *     if (primeknet_open(&p, "base", NULL, error) < 0) {
 *         fprintf(stderr, "%s\n", error);
 *         return 1;
 *     }
 *     struct primeknet_controls controls = PRIMEKNET_CONTROLS;
 *     controls.low_cut_hz = 70;
 *     primeknet_set_controls(p, 0, &controls);
 *     while (read_block(x, 480)) {
 *         primeknet_process(p, (const float *[]){x}, (float *[]){x}, 480);
 *         play_block(x, 480); // primeknet_get_delay(p) samples later than it came
 *     }
 *     primeknet_close(p);
 *
 * A handle holds a model, an engine that runs it and n streams. A stream is one signal with its own state and controls;
 * the channels of stereo sound are two streams. Samples are float, full scale 1.0, at the model's rate, which is 48 kHz
 * in the models that come with the library. Samples that are not finite count as 0.
 *
 * Threads: handles are independent of each other. For one handle, call primeknet_process and primeknet_reset from one
 * thread at a time, primeknet_close and primeknet_set_threads when no other call runs, and everything else from any
 * thread at any time.
 *
 * Real time: on the engine cpu every function except open, open_like, close and set_threads is real-time safe: it does
 * not allocate, lock, print or make system calls. primeknet_process runs the network on the calling thread, once per hop
 * of input, unless primeknet_set_threads gave it more. On the engine cuda it waits for the GPU.
 *
 * Errors: functions that return int return 0 or a negative errno; -EINVAL means that an argument is wrong.
 *
 * Structures begin with their size and may grow at their end in later versions. A program sets that size, and 0 to what
 * it does not use. A library that is older than the program returns -E2BIG where a member that it does not know is not
 * 0. */
#ifndef PRIMEKNET_H
#define PRIMEKNET_H

#include <math.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. */
#define PRIMEKNET_VERSION_MAJOR 0
#define PRIMEKNET_VERSION_MINOR 1
#define PRIMEKNET_VERSION_PATCH 0
#define PRIMEKNET_VERSION (PRIMEKNET_VERSION_MAJOR << 16 | PRIMEKNET_VERSION_MINOR << 8 | PRIMEKNET_VERSION_PATCH)

/* The version of the library, as PRIMEKNET_VERSION. */
unsigned primeknet_version(void);

enum { PRIMEKNET_ERROR = 512 }; /* bytes of an error line */

struct primeknet;

/* Members that are 0 or NULL take their defaults. */
struct primeknet_options {
    size_t size;         /* sizeof(struct primeknet_options) */
    const char *engine;  /* "cpu", "cuda" or, the default, "auto": the best that opens */
    const char *gpu;     /* of the engine cuda: its number or UUID; the default is "0" */
    /* How many samples each call of primeknet_process usually passes, 1 to 1048576; the default is 1. Every call must
     * pass a multiple of the greatest common divisor of block and hop; the larger that is, the shorter the delay. With
     * block 1 calls may pass any number of samples. With a multiple of the hop the delay is a hop less a sample shorter,
     * and a GPU computes the hops of a block together. */
    size_t block;
    unsigned n_streams;  /* 1 to 1024; the default is one sound */
    unsigned n_channels; /* of each sound: streams in a row whose levels share a gain; the default is 1 */
};

/* Opens a model: "small", "base", "large", "auto", or a file if the name contains a '/' or ends in ".safetensors".
 * Names are looked up in $PRIMEKNET_MODELS if that is set, else where models are installed. "auto" is the best model
 * that this machine can run in real time; the first call measures that, which takes seconds. options: NULL for all
 * defaults.
 *
 * Returns 0, or a negative errno: then *ret is NULL, and error has one line unless it is NULL. -ENOENT: there is no such
 * model; -EINVAL: it is none, or an argument is wrong; -ENODEV and others: the engine cannot run here. */
int primeknet_open(struct primeknet **ret, const char *model, const struct primeknet_options *options,
                   char error[PRIMEKNET_ERROR]);

/* Opens another handle with the same model, engine and GPU, whatever the options say of these. The handles share the
 * model's weights and may be closed in any order. */
int primeknet_open_like(struct primeknet **ret, const struct primeknet *like, const struct primeknet_options *options,
                        char error[PRIMEKNET_ERROR]);

void primeknet_close(struct primeknet *p); /* p may be NULL */

unsigned primeknet_get_rate(const struct primeknet *p);           /* Hz */
unsigned primeknet_get_hop(const struct primeknet *p);            /* samples that the network processes at once */
unsigned primeknet_get_delay(const struct primeknet *p);          /* samples between input and output */
const char *primeknet_get_engine(const struct primeknet *p);      /* what it runs on: "cpu" or "cuda" */
const char *primeknet_get_description(const struct primeknet *p); /* for people, such as "base on cpu (AVX-512)" */

/* Passes n samples of each stream: in[stream] and out[stream] are arrays of n samples, which may be the same array but
 * must not overlap otherwise. A stream whose in[stream] is NULL is left alone. An engine may compute the streams of one
 * call together.
 *
 * Returns -EIO if the engine is lost, for example because a GPU failed: the outputs are then silent, now and in all
 * later calls. */
int primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n);

/* The loudness of speech that the automatic level aims at, LUFS. */
#define PRIMEKNET_LEVEL_TARGET (-23.f)
#define PRIMEKNET_LEVEL_TARGET_MIN (-32.f)
#define PRIMEKNET_LEVEL_TARGET_MAX (-14.f)

struct primeknet_controls {
    size_t size;        /* sizeof(struct primeknet_controls) */
    float strength;     /* the exponent of the network's gains, 0 (the delayed input) to 1 */
    float floor_db;     /* the least gain, 0 or less; -INFINITY: none */
    float low_cut_hz;   /* the high-pass removes what lies below, whatever the strength; up to half the rate; 0: off */
    float level_target; /* of the automatic level, usually PRIMEKNET_LEVEL_TARGET; 0: off */
};

/* The controls of a fresh stream. */
#define PRIMEKNET_CONTROLS {sizeof(struct primeknet_controls), 1, -INFINITY, 0, 0}

/* Sets a stream's controls, from the next hop on, without a click.
 *
 * The automatic level brings a sound's speech to the loudness that its first stream's controls ask for; the other
 * channels' targets are ignored. Pass a sound's channels in the same calls. The gain, -12 to +18 dB, moves with time
 * constants of 1 s of speech down and 3 s up, and holds in pauses. True peaks stay below -1 dBTP, without more delay. At
 * strength 0 the input is not levelled. */
int primeknet_set_controls(struct primeknet *p, unsigned stream, const struct primeknet_controls *controls);

/* Lets calls of primeknet_process use n threads, the caller's included, for the streams of one call: on the engine cpu,
 * n streams or more on n cores take up to n times less time. 1 at first. The others inherit this thread's scheduling
 * policy and priority and sleep between calls; with them primeknet_process makes system calls and waits. Elsewhere it
 * makes no difference. Returns 0, or a negative errno if there can be no such threads, and then there are none. */
int primeknet_set_threads(struct primeknet *p, unsigned n);

/* Makes a stream fresh; its controls stay. */
int primeknet_reset(struct primeknet *p, unsigned stream);

/* The probability, 0 to 1, that the last hop of the stream's output is speech: above 0.5 somebody probably speaks. NAN:
 * unknown, because no hop is complete yet or the strength is 0; a high floor makes noise count as speech. To learn it
 * of every hop, pass no more than a hop per call. */
float primeknet_get_voice(const struct primeknet *p, unsigned stream);

#ifdef __cplusplus
}
#endif

#endif
