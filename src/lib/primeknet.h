/* primeknet.h - real-time speech enhancement: takes blocks of samples and returns as many enhanced samples, after a
 * fixed delay.
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
 *         play_block(x, 480); // lags the input by primeknet_get_delay(p) samples
 *     }
 *     primeknet_close(p);
 *
 * A handle holds a model, an engine that runs it, and n streams. A stream is one signal with its own state and
 * controls; stereo takes two streams. Samples are float, full scale 1.0, at the model's rate, which is 48 kHz for the
 * models shipped with the library. Samples that are not finite count as 0.
 *
 * docs/library.md is the guide; docs/model-format.md defines the network, which is based on PrimeK-Net (arXiv
 * 2502.19906) and Mamba (arXiv 2312.00752).
 *
 * Threads: handles are independent of each other. On one handle, call primeknet_process, primeknet_reset and
 * primeknet_pause from one thread at a time, primeknet_close and primeknet_set_threads only while no other call is
 * running, and all other functions from any thread at any time.
 *
 * Real time: with the engine "cpu", every function except open, open_like, close and set_threads is real-time safe: it
 * does not allocate, lock, print or make system calls. primeknet_process runs the network on the calling thread, once
 * per hop of input, unless primeknet_set_threads added threads. With the engine "cuda" it waits for the GPU.
 *
 * Errors: functions that return int return 0 or a negative errno. -EINVAL: an argument is invalid.
 *
 * Structures start with their size, and later versions may append members. Set the size, and set members that you do
 * not use to 0. A library older than the program returns -E2BIG if a member unknown to it is not 0. */
#ifndef PRIMEKNET_H
#define PRIMEKNET_H

#include <math.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; PRIMEKNET_VERSION is 0xMMmmpp. */
#define PRIMEKNET_VERSION_MAJOR 0
#define PRIMEKNET_VERSION_MINOR 1
#define PRIMEKNET_VERSION_PATCH 0
#define PRIMEKNET_VERSION (PRIMEKNET_VERSION_MAJOR << 16 | PRIMEKNET_VERSION_MINOR << 8 | PRIMEKNET_VERSION_PATCH)

/* Returns the version of the library, encoded like PRIMEKNET_VERSION. */
unsigned primeknet_version(void);

enum { PRIMEKNET_ERROR = 512 }; /* bytes of an error message, its NUL included */

struct primeknet;

/* A member that is 0 or NULL means its default. */
struct primeknet_options {
    size_t size;        /* sizeof(struct primeknet_options) */
    const char *engine; /* "cpu", "cuda", or "auto" (the default): cuda if it opens, else cpu */
    const char *gpu;    /* for the engine "cuda": the GPU's number or UUID; the default is "0" */
    /* The number of samples that a call of primeknet_process usually passes, 1 to 1048576; the default is 1. Every call
     * must pass a multiple of the greatest common divisor of block and hop. The larger this divisor, the shorter the
     * delay. With a block of 1, calls may pass any number of samples. With a multiple of the hop, the delay is hop - 1
     * samples shorter than that, and a GPU computes the hops of a block together. */
    size_t block;
    unsigned n_streams;  /* 1 to 1024, a multiple of n_channels; the default is n_channels */
    unsigned n_channels; /* consecutive streams that form one sound, with one gain of the automatic level; default: 1 */
};

/* Opens a model: "small", "base", "large", "auto", or the path of a file, which contains a '/' or ends in
 * ".safetensors". The library looks names up in $PRIMEKNET_MODELS if it is set, else in the directory of installed
 * models. "auto" selects the best model that this machine runs in real time; the first call measures the machine, which
 * takes seconds. options may be NULL: all defaults. Allocates, and blocks on files and on the GPU's driver.
 *
 * Returns 0, or a negative errno: *ret is then NULL, and error, unless it is NULL, holds a one-line message. -ENOENT:
 * no such model; -EINVAL: the file is not a valid model, or an argument is invalid; -ENODEV and others: the engine
 * cannot run on this machine. */
int primeknet_open(struct primeknet **ret, const char *model, const struct primeknet_options *options,
                   char error[PRIMEKNET_ERROR]);

/* Opens another handle with the model, engine and GPU of `like`; options->engine and options->gpu are ignored. The
 * handles share the model in memory, and may be closed in any order. Returns as primeknet_open does. */
int primeknet_open_like(struct primeknet **ret, const struct primeknet *like, const struct primeknet_options *options,
                        char error[PRIMEKNET_ERROR]);

void primeknet_close(struct primeknet *p); /* p may be NULL; never fails */

unsigned primeknet_get_rate(const struct primeknet *p);           /* Hz */
unsigned primeknet_get_hop(const struct primeknet *p);            /* samples that the network processes per frame */
unsigned primeknet_get_delay(const struct primeknet *p);          /* samples by which the output lags the input */
const char *primeknet_get_engine(const struct primeknet *p);      /* "cpu" or "cuda" */
const char *primeknet_get_description(const struct primeknet *p); /* for display, such as "base on cpu (AVX-512)" */

/* Enhances n samples of each stream. in and out are arrays of n_streams pointers; in[stream] and out[stream] point to n
 * samples each. Both may be the same array, but must not overlap otherwise. A stream with in[stream] == NULL is
 * skipped. An engine may compute the streams of one call together.
 *
 * Returns 0; -EINVAL if n does not fit the block (primeknet_options) or an output is missing: nothing has been done
 * then; or -EIO if the engine failed, for example because the GPU was lost: this and all later calls then output
 * silence. */
int primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n);

/* Default and bounds of the automatic level's target: the loudness of speech in LUFS (ITU-R BS.1770-4). */
#define PRIMEKNET_LEVEL_TARGET (-23.f)
#define PRIMEKNET_LEVEL_TARGET_MIN (-32.f)
#define PRIMEKNET_LEVEL_TARGET_MAX (-14.f)

struct primeknet_controls {
    size_t size;        /* sizeof(struct primeknet_controls) */
    float strength;     /* the exponent of the network's gains: 0 (the delayed input) to 1 */
    float floor_db;     /* the lowest gain, in dB, 0 or less; -INFINITY: no limit */
    float low_cut_hz;   /* cutoff of a high-pass filter, up to half the rate; 0: off. Independent of strength. */
    float level_target; /* LUFS, usually PRIMEKNET_LEVEL_TARGET; 0: no automatic level */
};

/* The initial controls of every stream. */
#define PRIMEKNET_CONTROLS \
    { sizeof(struct primeknet_controls), 1, -INFINITY, 0, 0 }

/* Sets a stream's controls. They take effect with the next hop, without a click. Returns 0; or, with the old controls
 * unchanged, -EINVAL for a value out of range or an unknown stream, or -E2BIG (see the top).
 *
 * The automatic level brings the speech of a sound to level_target. Only the target of the sound's first stream counts.
 * Pass all channels of a sound in the same call. The gain ranges from -12 to +18 dB. It falls with a time constant of 1
 * s of speech and rises with one of 3 s, and holds in pauses. A limiter keeps true peaks (ITU-R BS.1770-4, annex 2)
 * below -1 dBTP and adds no delay. At strength 0 the automatic level is off. */
int primeknet_set_controls(struct primeknet *p, unsigned stream, const struct primeknet_controls *controls);

/* Sets how many threads primeknet_process uses for the streams of a call, the calling thread included; initially 1.
 * With the engine "cpu", n or more streams on n cores then run up to n times faster. The additional threads inherit the
 * scheduling policy and priority of the thread that calls this, and sleep between calls. With them, primeknet_process
 * makes system calls and waits, so it is no longer real-time safe. Other engines ignore the number. Returns 0, -EINVAL
 * if n is 0, or another negative errno if the threads cannot be created; the handle then runs single-threaded. */
int primeknet_set_threads(struct primeknet *p, unsigned n);

/* Resets a stream to its initial state, and keeps its controls. Returns 0 or -EINVAL. */
int primeknet_reset(struct primeknet *p, unsigned stream);
/* The same, but keeps what the network remembers of the voice and the noise: for sound after a pause, or for a
 * recording whose beginning it has already heard, which it then enhances better. Returns 0 or -EINVAL. */
int primeknet_pause(struct primeknet *p, unsigned stream);

/* Returns the probability, 0 to 1, that the last hop of the stream's output is speech; above 0.5, somebody is probably
 * speaking. NAN: unknown, because no hop is complete yet, the strength is 0, or there is no such stream. A high floor
 * makes noise count as speech. To read it for every hop, pass at most one hop per call. */
float primeknet_get_voice(const struct primeknet *p, unsigned stream);

#ifdef __cplusplus
}
#endif

#endif
