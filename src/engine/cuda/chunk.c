/* chunk.c - processes many frames at once, for files. A job's hops pass through analysis, network and synthesis in
 * chunks that are as long as the memory limit allows. The division into chunks does not affect the results.
 *
 * Live sound passes frame by frame, one stream after the other, if hop.c has no kernels for the network. The network's
 * kernels are then a CUDA graph for each stream. */
#include "engine/cuda/cuda.h"

#include "engine/cuda/capture.h"
#include "engine/cuda/fft.h"
#include "engine/cuda/net_cuda.h"
#include "engine/cuda/pack.h"
#include "kernels/spectrum/spectrum_cuda.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most memory for all allocations (unless the streams' states need more), and the longest and shortest chunk. */
enum { MOST_BYTES = 500 << 20, MOST_FRAMES = 768, LEAST_FRAMES = 16 };

/* The samples of long chunks pass through page-locked memory in pieces: one is copied on the host while another one is
 * in transit. */
enum { PIECES = 8 };

struct stream {
    float *past, *overlap; /* [window - hop], [synthesis - hop] */
    struct net_cuda_state net;
    size_t size;             /* bytes of all of it, from `past` on */
    cudaGraphExec_t network; /* of one frame, for live sound; else NULL */
};

struct chunk {
    struct cuda_engine head;
    char name[300];
    cudaStream_t stream;
    struct net_cuda *net;
    struct stream *streams;
    struct fft *fft;
    struct spectrum_cuda spectrum;
    unsigned n_frames;        /* in the longest chunk; 1: live sound */
    char *memory;             /* all of it, on the device */
    float *pinned;            /* [n_frames * hop]: input and output in transit */
    cudaEvent_t came[PIECES]; /* a piece of the output has arrived */

    const float *analysis, *synthesis;
    float *samples;         /* [window - hop + n_frames * hop] */
    float *frames;          /* [n_frames][window] */
    float *X;               /* [n_frames][n_bins][2] */
    float *features;        /* [n_frames][n_positions][3] */
    float *mask, *rotation; /* [n_frames][n_positions], times 2 */
    float *out;             /* [n_frames * hop + synthesis - hop] */
};

static void chunk_close(struct engine *e) {
    struct chunk *c = (struct chunk *)e;
    if (c->stream)
        cudaStreamSynchronize(c->stream);
    for (unsigned i = 0; c->streams && i < e->n_streams; i++) {
        if (c->streams[i].network)
            cudaGraphExecDestroy(c->streams[i].network);
        net_cuda_state_done(&c->streams[i].net);
    }
    free(c->streams);
    net_cuda_free(c->net);
    fft_close(c->fft);
    cudaFree(c->memory);
    cudaFreeHost(c->pinned);
    for (unsigned i = 0; i < PIECES; i++)
        if (c->came[i])
            cudaEventDestroy(c->came[i]);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    free(c);
}

static void layout_spectrum(struct chunk *c, struct arena *a) {
    const struct model_config *g = model_config(c->head.common.model);
    const struct bands bands = arena_bands(a, g);
    c->spectrum = (struct spectrum_cuda){
        .n_bins = g->n_bins,
        .n_linear = g->n_linear,
        .n_bands = g->n_bands,
        .n_positions = g->n_positions,
        .scale = g->scale,
        .compression = g->compression,
        .mask_ceiling = g->mask_ceiling,
        .mask_minimum = g->mask_minimum,
        .band_gain_maximum = g->band_gain_maximum,
        .rotation_epsilon = g->rotation_epsilon,
        .magnitude_minimum = g->magnitude_minimum,
        .power_minimum = g->power_minimum,
        .edges = bands.edges,
        .below = bands.below,
        .share = bands.share,
        .slope = arena_copy(a, model_weights(c->head.common.model)->mask_slope, g->n_positions),
    };
}

static void layout_weights(struct chunk *c, struct arena *a) {
    const struct model *m = c->head.common.model;
    const struct model_config *g = model_config(m);
    net_cuda_weights(c->net, a);
    layout_spectrum(c, a);
    c->analysis = arena_copy(a, model_weights(m)->analysis_window, g->window);
    c->synthesis = arena_copy(a, model_weights(m)->synthesis_window, g->synthesis);
}

static void layout_streams(struct chunk *c, struct arena *a) {
    const struct model_config *g = model_config(c->head.common.model);
    for (unsigned i = 0; i < c->head.common.n_streams; i++) {
        struct stream *s = &c->streams[i];
        const size_t before = a->used;
        s->past = arena_take(a, g->window - g->hop);
        s->overlap = arena_take(a, g->synthesis - g->hop);
        net_cuda_state_layout(c->net, &s->net, a);
        s->size = a->used - before;
    }
}

static void layout_scratch(struct chunk *c, struct arena *a, unsigned n_frames) {
    const struct model_config *g = model_config(c->head.common.model);
    c->n_frames = n_frames;
    c->samples = arena_take(a, g->window - g->hop + (size_t)n_frames * g->hop);
    c->frames = arena_take(a, (size_t)n_frames * g->window);
    c->X = arena_take(a, 2 * (size_t)n_frames * g->n_bins);
    c->features = arena_take(a, 3 * (size_t)n_frames * g->n_positions);
    c->mask = arena_take(a, (size_t)n_frames * g->n_positions);
    c->rotation = arena_take(a, 2 * (size_t)n_frames * g->n_positions);
    c->out = arena_take(a, (size_t)n_frames * g->hop + g->synthesis - g->hop);
    net_cuda_scratch(c->net, a, n_frames);
}

static unsigned frames_that_fit(struct chunk *c, size_t used, unsigned max_hops) {
    struct arena measured = {0};
    layout_scratch(c, &measured, MOST_FRAMES);
    const size_t left = used < MOST_BYTES ? MOST_BYTES - used : 0, fit = left / (measured.used / MOST_FRAMES + 1),
                 n = fit < LEAST_FRAMES ? LEAST_FRAMES : fit;
    const unsigned most = max_hops < MOST_FRAMES ? max_hops : MOST_FRAMES;
    return n < most ? (unsigned)n : most;
}

static int allocate(struct chunk *c, const struct engine_options *options, struct err *err) {
    const unsigned hop = model_hop(c->head.common.model);
    const unsigned wait = options->max_hops > 1 ? 0 : cudaEventBlockingSync; /* live sound sleeps, not polls */
    int code;
    if ((code = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking)))
        return cuda_failed(err, code, "cannot use the GPU");
    for (unsigned i = 0; i < PIECES; i++)
        if ((code = cudaEventCreateWithFlags(&c->came[i], cudaEventDisableTiming | wait)))
            return cuda_failed(err, code, "cannot use the GPU");
    c->streams = calloc(c->head.common.n_streams, sizeof *c->streams);
    if (!c->streams || net_cuda_new(&c->net, c->head.common.model, c->stream))
        return err_set(err, -ENOMEM, "engine cuda: out of memory");
    for (unsigned i = 0; i < c->head.common.n_streams; i++)
        if (net_cuda_state_new(c->net, &c->streams[i].net))
            return err_set(err, -ENOMEM, "engine cuda: out of memory");

    struct arena a = {0};
    layout_weights(c, &a);
    const size_t weights = a.used;
    layout_streams(c, &a);
    const unsigned n_frames = frames_that_fit(c, a.used, options->max_hops);
    layout_scratch(c, &a, n_frames);
    if ((code = cudaMalloc((void **)&c->memory, a.used)) ||
        (code = cudaMallocHost((void **)&c->pinned, (size_t)n_frames * hop * sizeof *c->pinned)))
        return cuda_failed(err, code, "cannot allocate memory for the model");
    if ((code = fft_open(&c->fft, model_config(c->head.common.model)->window, n_frames, n_frames == 1)))
        return cuda_failed(err, code, "cannot plan the Fourier transforms");
    if (!(a.mirror = calloc(1, weights)))
        return err_set(err, -ENOMEM, "engine cuda: out of memory");
    const size_t size = a.used;
    a.base = c->memory;
    a.used = 0;
    layout_weights(c, &a);
    layout_streams(c, &a);
    layout_scratch(c, &a, n_frames);
    if (!(code = cudaMemsetAsync(c->memory, 0, size, c->stream)) &&
        !(code = cudaMemcpyAsync(c->memory, a.mirror, weights, cudaMemcpyHostToDevice, c->stream)))
        code = cudaStreamSynchronize(c->stream);
    free(a.mirror);
    return code ? cuda_failed(err, code, "cannot copy the model") : 0;
}

/* ---- frames ---- */

static void copy(struct chunk *c, float *to, const float *from, size_t n) {
    cudaMemcpyAsync(to, from, n * sizeof *to, cudaMemcpyDefault, c->stream);
}

static unsigned pieces_of(unsigned n_frames) {
    return n_frames < PIECES ? 1 : PIECES;
}

/* The i-th piece of n samples. */
static size_t piece_of(size_t n, unsigned i, unsigned n_pieces, size_t *from) {
    *from = n * i / n_pieces;
    return n * (i + 1) / n_pieces - *from;
}

static int run_network(struct chunk *c, const struct stream *s, unsigned n_frames) {
    if (s->network)
        return cudaGraphLaunch(s->network, c->stream);
    net_cuda_run(c->net, &s->net, n_frames, c->features, c->mask, c->rotation);
    return cudaSuccess; /* a failed launch is found later */
}

/* Queues everything from the samples to those in `pinned`. Returns a cudaError_t. */
static int queue_frames(struct chunk *c, unsigned stream, unsigned n_frames, const float *in) {
    const struct model_config *g = model_config(c->head.common.model);
    const struct engine_control *control = &c->head.common.controls[stream];
    struct stream *s = &c->streams[stream];
    const size_t n = (size_t)n_frames * g->hop, n_past = g->window - g->hop, n_kept = g->synthesis - g->hop;
    const unsigned n_pieces = pieces_of(n_frames);
    size_t from;
    int code;

    copy(c, c->samples, s->past, n_past);
    for (unsigned i = 0; i < n_pieces; i++) {
        const size_t size = piece_of(n, i, n_pieces, &from);
        memcpy(c->pinned + from, in + from, size * sizeof *in);
        copy(c, c->samples + n_past + from, c->pinned + from, size);
    }
    copy(c, s->past, c->samples + n, n_past);
    frames_cuda(&(struct frames_cuda){n_frames, g->window, g->hop, ENGINE_LOUDEST, c->samples, c->analysis, c->frames},
                c->stream);
    code = fft_forward(c->fft, c->frames, c->X, c->stream);
    features_cuda(&c->spectrum, n_frames, c->X, c->features, c->stream);
    code = code ? code : run_network(c, s, n_frames);
    apply_cuda(&c->spectrum, n_frames, c->mask, c->rotation, control->strength, control->floor, control->low_cut, c->X,
               c->stream);
    code = code ? code : fft_inverse(c->fft, c->X, c->frames, c->stream);
    overlap_cuda(
        &(struct overlap_cuda){n_frames, g->window, g->synthesis, g->hop, c->frames, c->synthesis, s->overlap, c->out},
        c->stream);
    for (unsigned i = 0; i < n_pieces; i++) {
        const size_t size = piece_of(n, i, n_pieces, &from);
        copy(c, c->pinned + from, c->out + from, size);
        cudaEventRecord(c->came[i], c->stream);
    }
    copy(c, s->overlap, c->out + n, n_kept);
    return code ? code : (int)cudaGetLastError();
}

static int run_frames(struct chunk *c, unsigned stream, unsigned n_frames, const float *in, float *out) {
    const size_t n = (size_t)n_frames * model_hop(c->head.common.model);
    const unsigned n_pieces = pieces_of(n_frames);
    size_t from;
    if (queue_frames(c, stream, n_frames, in))
        return -EIO;
    for (unsigned i = 0; i < n_pieces; i++) {
        const size_t size = piece_of(n, i, n_pieces, &from);
        if (cudaEventSynchronize(c->came[i]))
            return -EIO;
        memcpy(out + from, c->pinned + from, size * sizeof *out);
    }
    return 0;
}

static int chunk_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    struct chunk *c = (struct chunk *)e;
    const unsigned hop = model_hop(e->model);
    for (unsigned j = 0; j < n_jobs; j++)
        for (unsigned done = 0; done < jobs[j].n_hops;) {
            const unsigned left = jobs[j].n_hops - done, n = left < c->n_frames ? left : c->n_frames;
            if (run_frames(c, jobs[j].stream, n, jobs[j].in + (size_t)done * hop, jobs[j].out + (size_t)done * hop))
                return -EIO;
            done += n;
        }
    return 0;
}

static void chunk_reset(struct engine *e, unsigned stream, bool forgets) {
    struct chunk *c = (struct chunk *)e;
    const struct stream *s = &c->streams[stream];
    const size_t samples = (size_t)(s->overlap + model_delay(e->model) - s->past) * sizeof *s->past;
    cudaMemsetAsync(s->past, 0, forgets ? s->size : samples, c->stream);
}

static void chunk_tail(const struct engine *e, unsigned stream, float *tail) {
    const struct chunk *c = (const struct chunk *)e;
    cudaMemcpyAsync(tail, c->streams[stream].overlap, model_delay(e->model) * sizeof *tail, cudaMemcpyDeviceToHost,
                    c->stream);
    cudaStreamSynchronize(c->stream);
}

/* ---- opening ---- */

/* For live sound. A first frame loads all kernels, which a capture must not do and the first hop has no time for. */
static int make_graphs(struct chunk *c, struct err *err) {
    float *silence = calloc(model_hop(c->head.common.model), sizeof *silence);
    if (!silence)
        return err_set(err, -ENOMEM, "engine cuda: out of memory");
    int code = queue_frames(c, 0, 1, silence);
    free(silence);
    chunk_reset(&c->head.common, 0, true);
    for (struct stream *s = c->streams; !code && s < c->streams + c->head.common.n_streams; s++)
        if (!(code = capture_begin(c->stream))) {
            net_cuda_run(c->net, &s->net, 1, c->features, c->mask, c->rotation);
            code = capture_end(c->stream, cudaGetLastError(), &s->network);
        }
    if (code || (code = cudaStreamSynchronize(c->stream)))
        return cuda_failed(err, code, "cannot capture the graphs");
    return 0;
}

static int chunk_open(struct engine **ret, const struct engine *common, const struct engine_options *options,
                      struct err *err) {
    const struct cuda_engine *const head = (const struct cuda_engine *)common;
    struct cudaDeviceProp device;
    int code = cudaGetDeviceProperties(&device, head->device);
    if (code)
        return cuda_failed(err, code, "cannot use the GPU");
    struct chunk *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, -ENOMEM, "engine cuda: out of memory");
    c->head = *head;
    snprintf(c->name, sizeof c->name, "cuda (%s)", device.name);
    c->head.common.name = c->name;
    if ((code = allocate(c, options, err)) || (c->n_frames == 1 && (code = make_graphs(c, err)))) {
        chunk_close(&c->head.common);
        return code;
    }
    *ret = &c->head.common;
    return 0;
}

const struct engine_type cuda_chunk = {
    .name = "cuda",
    .open = chunk_open,
    .close = chunk_close,
    .process = chunk_process,
    .reset = chunk_reset,
    .tail = chunk_tail,
};
