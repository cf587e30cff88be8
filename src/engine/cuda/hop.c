/* hop.c - runs the network hop by hop on the GPU, for live sound. The whole path from samples to samples is one CUDA
 * graph, captured for each number of streams in a batch, up to HOP_MAX_SLOTS, and then replayed.
 *
 * Samples, tails and controls pass through page-locked memory that the device can access, so a hop is one launch and
 * one wait. The last kernel writes a ticket when its samples are complete. To save processor time, the host sleeps for
 * most of the time that recent hops took. Then it polls for the ticket for a while; if the ticket does not arrive, it
 * blocks in the driver, which also reports errors. */
#include "engine/cuda/cuda.h"

#include "kernels/fft/fft_cuda.h"
#include "kernels/hop/hop_cuda.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MARGIN_NS = 20000, /* wake up this long before the ticket is expected */
    SPIN_NS = 200000,  /* poll at most this long */
    MOST_NS = 2000000, /* never sleep longer */
};

/* How to wait for a hop. For measurements, PRIMEKNET_CUDA_WAIT selects another way than the first. */
enum wait { WAIT_NAP, WAIT_SPIN, WAIT_BLOCK };

struct engine_hop {
    struct cuda_engine head;
    char name[96];
    enum wait wait;
    struct hop_net net;
    float *weights, *scratch; /* on the device, like net.shape.state and .slots */
    void *mapped;
    unsigned *now; /* [n_streams]: frames so far, modulo n_frames */
    unsigned n_frames, ticket, n_slots; /* ticket and n_slots: of the last hop */
    cudaStream_t stream;
    cudaEvent_t finished;
    unsigned n_batches;
    struct batch {
        cudaGraphExec_t graph;
        int64_t nap_ns; /* sleep before polling */
    } batches[HOP_MAX_SLOTS]; /* [n_batches]: of 1, 2, ... slots */
};

/* ---- weights ---- */

/* Lays out device arrays twice: first to count them, then into `host`, which is copied to the device as a whole. */
struct layout {
    const struct hop_shape *shape;
    float *host;   /* NULL while counting */
    float *device;
    size_t n;
};

enum { ALIGNED = 64 }; /* floats */

static float *place(struct layout *l, size_t n, float **host) {
    size_t at = l->n;
    l->n += (n + ALIGNED - 1) / ALIGNED * ALIGNED;
    *host = l->host ? l->host + at : NULL;
    return l->device ? l->device + at : NULL;
}

static const float *copied(struct layout *l, const float *from, size_t n) {
    float *host, *device = place(l, n, &host);
    if (host)
        memcpy(host, from, n * sizeof *from);
    return device;
}

/* Transposes rows of n_columns into columns of n_rows. */
static const float *transposed(struct layout *l, const float *from, unsigned n_rows, unsigned n_columns) {
    float *host, *device = place(l, (size_t)n_rows * n_columns, &host);
    for (unsigned r = 0; host && r < n_rows; r++)
        for (unsigned i = 0; i < n_columns; i++)
            host[(size_t)i * n_rows + r] = from[(size_t)r * n_columns + i];
    return device;
}

/* Weights behind a norm are shifted to a sum of 0, which removes the mean of their inputs. */
static void pack_normed(float *to, const struct hop_shape *s, unsigned n_in, unsigned n_out, unsigned o,
                        const float *row) {
    double mean = 0;
    for (unsigned i = 0; i < n_in; i++)
        mean += row[i] / n_in;
    hop_pack(to, s, n_in, n_out, o, row, mean);
}

/* prelu may be NULL. */
static struct hop_linear packed(struct layout *l, const struct linear_weights *w, const float *prelu,
                                bool behind_norm) {
    float *host;
    struct hop_linear to = {.weight = place(l, hop_packed(l->shape, w->n_in, w->n_out), &host)};
    for (unsigned o = 0; host && o < w->n_out; o++)
        if (behind_norm)
            pack_normed(host, l->shape, w->n_in, w->n_out, o, w->weight + (size_t)o * w->n_in);
        else
            hop_pack(host, l->shape, w->n_in, w->n_out, o, w->weight + (size_t)o * w->n_in, 0);
    to.bias = w->bias ? copied(l, w->bias, w->n_out) : place(l, w->n_out, &host); /* or zeros */
    to.prelu = prelu ? copied(l, prelu, w->n_out) : NULL;
    return to;
}

static struct hop_linear linear(struct layout *l, const struct linear_weights *w, const float *prelu) {
    return packed(l, w, prelu, false);
}

static struct hop_linear normed(struct layout *l, const struct linear_weights *w) {
    return packed(l, w, NULL, true);
}

/* Outputs o and c + o of a gate's 2 c outputs become neighbours. */
static struct hop_linear gate_layout(struct layout *l, const struct linear_weights *w) {
    const unsigned c = w->n_in;
    float *host;
    struct hop_linear to = {.weight = place(l, hop_packed(l->shape, c, 2 * c), &host)};
    for (unsigned o = 0; host && o < 2 * c; o++)
        pack_normed(host, l->shape, c, 2 * c, o % c * 2 + o / c, w->weight + (size_t)o * c);
    to.bias = transposed(l, w->bias, 2, c);
    return to;
}

static void dense_layout(struct layout *l, const struct model_config *g, struct hop_dense *d,
                         const struct dense_weights *w) {
    for (unsigned i = 0; i < g->depth; i++) {
        d->taps[i] = copied(l, w[i].taps, 9 * (size_t)(i + 1) * g->channels);
        d->mix[i] = linear(l, &w[i].mix, w[i].prelu);
    }
}

/* The scan uses powers of two: returns decay times log2 e, [n_states][n_channels]. */
static const float *decay_layout(struct layout *l, const float *from, unsigned n_channels, unsigned n_states) {
    float *host, *device = place(l, (size_t)n_channels * n_states, &host);
    for (unsigned j = 0; host && j < n_channels * n_states; j++)
        host[(size_t)(j % n_states) * n_channels + j / n_states] = (float)(from[j] * M_LOG2E);
    return device;
}

static void mamba_layout(struct layout *l, const struct model_config *g, struct hop_time *t,
                         const struct time_weights *w) {
    t->select = linear(l, &w->select, NULL);
    t->step.weight = transposed(l, w->step.weight, g->d_inner, g->step_rank);
    t->step.bias = copied(l, w->step.bias, g->d_inner);
    t->decay = decay_layout(l, w->decay, g->d_inner, g->d_state);
    t->pass = copied(l, w->pass, g->d_inner);
}

static void mamba2_layout(struct layout *l, const struct model_config *g, struct hop_time *t,
                          const struct time_weights *w) {
    const unsigned heads = g->d_inner / g->head_dim;
    t->decay = decay_layout(l, w->head_decay, heads, 1);
    t->pass = copied(l, w->head_pass, heads);
}

static void time_layout(struct layout *l, const struct model_config *g, struct hop_time *t,
                        const struct time_weights *w) {
    t->gate = gate_layout(l, &w->gate);
    t->proj = linear(l, &w->proj, NULL);
    t->in = normed(l, &w->in);
    if (w->conv_taps) {
        t->conv_taps = copied(l, w->conv_taps, (size_t)g->d_conv * l->shape->d_seen);
        t->conv_bias = copied(l, w->conv_bias, l->shape->d_seen);
    }
    switch (g->mixer) {
    case MODEL_MAMBA: mamba_layout(l, g, t, w); break;
    case MODEL_MAMBA2: mamba2_layout(l, g, t, w); break;
    case MODEL_GRU: t->state = linear(l, &w->gru_state, NULL); break;
    case MODEL_LSTM: t->state = linear(l, &w->lstm_state, NULL); break;
    }
    t->out = linear(l, &w->out, NULL);
}

static void freq_layout(struct layout *l, const struct model_config *g, struct hop_freq *f,
                        const struct freq_weights *w) {
    const struct hop_shape *s = l->shape;
    const unsigned c = g->channels, width = g->n_kernels * c;
    f->gate = gate_layout(l, &w->gate);
    float *gate_taps, *taps, *mix, *bias;
    f->gate_taps = place(l, 3 * 2 * (size_t)c, &gate_taps);
    for (unsigned k = 0; gate_taps && k < 3 * 2 * c; k++)
        gate_taps[k / (2 * c) * 2 * c + k % c * 2 + k / c % 2] = w->gate_taps[k];
    f->attention = linear(l, &w->attention, NULL);
    f->proj = linear(l, &w->proj, NULL);
    f->up = normed(l, &w->up);
    f->taps = place(l, (size_t)s->n_segments * HOP_TAPS * c * 2, &taps);
    f->mix.weight = place(l, hop_packed(s, c, width), &mix);
    f->mix.bias = place(l, width, &bias);
    for (unsigned p = 0; p < g->n_kernels && taps; p++) {
        const struct prime_weights *prime = &w->prime[p];
        float *to = taps + (size_t)s->first_segment[p] * HOP_TAPS * c * 2;
        for (size_t k = 0; k < (size_t)g->kernels[p] * c; k++) {
            to[2 * k] = prime->mixed_taps[k];
            to[2 * k + 1] = prime->taps[k];
        }
        for (unsigned o = 0; o < c; o++)
            hop_pack(mix, s, c, width, p * c + o, prime->mix.weight + (size_t)o * c, 0);
        memcpy(bias + p * c, prime->mix.bias, c * sizeof *bias);
    }
    f->down = linear(l, &w->down, NULL);
}

static void up_layout(struct layout *l, struct hop_up *u, const struct up_weights *w) {
    u->even = linear(l, &w->even, w->prelu);
    u->odd = linear(l, &w->odd, w->prelu);
    u->head_weight = copied(l, w->head.weight, (size_t)w->head.n_out * w->head.n_in);
    u->head_bias = copied(l, w->head.bias, w->head.n_out);
}

static void bands_layout(struct layout *l, const struct model_config *g, struct hop_net *n) {
    const unsigned n_left = g->n_bins - g->n_linear;
    float *edges, *bands, *shares;
    n->band_edges = (unsigned *)place(l, g->n_bands + 1, &edges);
    n->bin_bands = (unsigned *)place(l, n_left, &bands);
    n->bin_shares = place(l, n_left, &shares);
    if (!shares)
        return;
    memcpy(edges, g->band_edges, (g->n_bands + 1) * sizeof *g->band_edges);
    for (unsigned i = 0; i < n_left; i++)
        ((unsigned *)bands)[i] = model_band_below(g, g->n_linear + i, &shares[i]);
}

static void weights_layout(struct layout *l, const struct model *m, struct hop_net *n) {
    const struct model_config *g = model_config(m);
    const struct weights *w = model_weights(m);
    const unsigned c = g->channels;
    float *roots;
    n->analysis_window = copied(l, w->analysis_window, g->window);
    n->synthesis_window = copied(l, w->synthesis_window, g->synthesis);
    n->roots = place(l, 2 * (size_t)g->window, &roots);
    if (roots)
        fft_roots(roots, g->window);
    bands_layout(l, g, n);
    n->embed_weight = transposed(l, w->embed.weight, c, 3);
    n->embed_bias = copied(l, w->embed.bias, c);
    n->embed_prelu = copied(l, w->embed_prelu, c);
    dense_layout(l, g, &n->encoder, w->encoder);
    n->down = linear(l, &w->down, w->down_prelu);
    for (unsigned b = 0; b < g->n_blocks; b++) {
        for (unsigned i = 0; i < g->n_time; i++) {
            n->blocks[b].time[i].index = b * g->n_time + i;
            time_layout(l, g, &n->blocks[b].time[i], &w->blocks[b].time[i]);
        }
        for (unsigned i = 0; i < g->n_freq; i++)
            freq_layout(l, g, &n->blocks[b].freq[i], &w->blocks[b].freq[i]);
        n->blocks[b].time_skip = copied(l, w->blocks[b].time_skip, c);
        n->blocks[b].freq_skip = copied(l, w->blocks[b].freq_skip, c);
    }
    dense_layout(l, g, &n->decoders[0], w->mask);
    up_layout(l, &n->ups[0], &w->mask_up);
    n->slope = copied(l, w->mask_slope, g->n_positions);
    dense_layout(l, g, &n->decoders[1], w->phase);
    up_layout(l, &n->ups[1], &w->phase_up);
}

/* ---- memory ---- */

_Static_assert((int)HOP_MAX_DEPTH == MODEL_MAX_DEPTH && (int)HOP_MAX_KERNELS == MODEL_MAX_KERNELS &&
                   (int)HOP_MAX_TIME == MODEL_MAX_LAYERS && (int)HOP_LSTM == MODEL_LSTM && (int)HOP_GRU == MODEL_GRU &&
                   (int)HOP_MAMBA2 == MODEL_MAMBA2 && (int)HOP_LOUDEST == ENGINE_LOUDEST,
               "the kernels' limits and mixers are the model's");

static struct hop_shape shape_of(const struct model_config *g) {
    struct hop_shape s = {
        .window = g->window, .synthesis = g->synthesis, .hop = g->hop, .n_bins = g->n_bins, .n_linear = g->n_linear,
        .n_bands = g->n_bands, .n_positions = g->n_positions, .n_half = g->n_half, .channels = g->channels,
        .depth = g->depth, .n_kernels = g->n_kernels, .d_inner = g->d_inner, .d_state = g->d_state, .d_conv = g->d_conv,
        .step_rank = g->step_rank, .mixer = (enum hop_mixer)g->mixer, .head_dim = g->head_dim,
        .d_seen = model_convolved(g), .n_ring = (1u << g->depth) + 1, .scale = g->scale, .compression = g->compression,
        .mask_ceiling = g->mask_ceiling, .mask_minimum = g->mask_minimum, .band_gain_maximum = g->band_gain_maximum,
        .rotation_epsilon = g->rotation_epsilon, .magnitude_minimum = g->magnitude_minimum,
        .power_minimum = g->power_minimum, .norm_epsilon = g->norm_epsilon};
    for (unsigned k = 0; k < g->n_kernels; k++) {
        for (unsigned at = 0; at < g->kernels[k]; at += HOP_TAPS) {
            s.segments[s.n_segments].kernel = k;
            s.segments[s.n_segments++].offset = (int)at - (int)(g->kernels[k] / 2);
        }
        s.first_segment[k + 1] = s.n_segments;
    }
    const size_t frame = (size_t)g->n_half * g->channels, n_layers = (size_t)g->n_blocks * g->n_time;
    const bool convolves = g->d_conv > 0;
    const size_t inner = (size_t)g->n_half * g->d_inner, rings = (size_t)g->depth * s.n_ring;
    s.overlap = s.past + g->window - g->hop;
    s.encoder = s.overlap + g->synthesis - g->hop;
    s.mask = s.encoder + rings * g->n_positions * g->channels;
    s.phase = s.mask + rings * frame;
    s.conv = s.phase + rings * frame;
    s.scan = s.conv + (convolves ? n_layers * (g->d_conv - 1) * g->n_half * s.d_seen : 0);
    s.cell = s.scan + n_layers * (convolves ? g->d_state : 1) * inner;
    s.n_state = s.cell + (g->mixer == MODEL_LSTM ? n_layers * inner : 0);
    return s;
}

static void scratch_layout(struct layout *l, const struct hop_shape *s, size_t n, struct hop_scratch *to) {
    const size_t half = (size_t)s->n_half * s->channels;
    float *none;
    to->spectrum = place(l, n * 2 * s->n_bins, &none);
    to->features = place(l, n * 3 * s->n_positions, &none);
    to->encoded = place(l, n * s->n_positions * s->channels, &none);
    to->x = place(l, n * half, &none);
    to->skip = place(l, n * half, &none);
    to->gates = place(l, n * 2 * half, &none);
    to->chunks = place(l, n * s->n_kernels * half, &none);
    to->decoded = place(l, n * 2 * half, &none);
    to->gain = place(l, n * s->n_positions, &none);
    to->rotation = place(l, n * 2 * s->n_positions, &none);
}

static int allocate_host(struct engine_hop *h) {
    const struct model_config *g = model_config(h->head.common.model);
    struct hop_net *n = &h->net;
    n->blocks = calloc(g->n_blocks, sizeof *n->blocks);
    h->now = calloc(h->head.common.n_streams, sizeof *h->now);
    if (!n->blocks || !h->now)
        return -ENOMEM;
    for (unsigned b = 0; b < g->n_blocks; b++) {
        n->blocks[b].time = calloc(g->n_time, sizeof *n->blocks[b].time);
        n->blocks[b].freq = calloc(g->n_freq, sizeof *n->blocks[b].freq);
        if (!n->blocks[b].time || !n->blocks[b].freq)
            return -ENOMEM;
    }
    n->n_blocks = g->n_blocks;
    n->n_time = g->n_time;
    n->n_freq = g->n_freq;
    n->shape = shape_of(g);
    h->n_batches = h->head.common.n_streams < HOP_MAX_SLOTS ? h->head.common.n_streams : HOP_MAX_SLOTS;
    h->n_frames = n->shape.n_ring * (g->d_conv ? g->d_conv - 1 : 1);
    return 0;
}

static int upload(struct engine_hop *h, struct err *err) {
    struct layout l = {.shape = &h->net.shape};
    weights_layout(&l, h->head.common.model, &h->net);
    const size_t size = l.n * sizeof *l.host;
    int code = cudaMalloc((void **)&h->weights, size);
    if (code)
        return cuda_failed(err, code, "cannot allocate memory for the model");
    l = (struct layout){.shape = l.shape, .host = calloc(1, size), .device = h->weights};
    if (!l.host)
        return err_set(err, -ENOMEM, "engine cuda: out of memory");
    weights_layout(&l, h->head.common.model, &h->net);
    code = cudaMemcpy(h->weights, l.host, size, cudaMemcpyHostToDevice);
    free(l.host);
    return code ? cuda_failed(err, code, "cannot copy the model") : 0;
}

static int allocate_device(struct engine_hop *h, struct err *err) {
    const unsigned n_streams = h->head.common.n_streams, n_slots = h->n_batches;
    struct hop_net *n = &h->net;
    struct hop_shape *s = &n->shape;
    const size_t size = n_streams * s->n_state * sizeof(float);
    struct layout l = {0};
    scratch_layout(&l, s, n_slots, &n->scratch);
    int code;
    if ((code = cudaMalloc((void **)&s->state, size)) || (code = cudaMemset(s->state, 0, size)) ||
        (code = cudaMalloc((void **)&h->scratch, l.n * sizeof(float))) ||
        (code = cudaMalloc((void **)&s->slots, n_slots * sizeof *s->slots)) ||
        (code = cudaMemset(s->slots, 0, n_slots * sizeof *s->slots)))
        return cuda_failed(err, code, "cannot allocate memory for the streams");
    l = (struct layout){.device = h->scratch};
    scratch_layout(&l, s, n_slots, &n->scratch);

    /* Slots and tickets, then the arrays of floats, each starting on its own cache line. */
    const size_t n_kept = s->synthesis - s->hop;
    l = (struct layout){0};
    for (unsigned pass = 0; pass < 2; pass++) {
        float *none;
        n->asked = (struct hop_slot *)place(&l, n_slots * sizeof *n->asked / sizeof(float), &none);
        n->done = (volatile unsigned *)place(&l, n_slots, &none);
        n->in = place(&l, (size_t)n_slots * s->hop, &none);
        n->out = (volatile unsigned long long *)place(&l, 2 * (size_t)n_slots * s->hop, &none);
        n->tail = place(&l, n_streams * n_kept, &none);
        if (pass)
            break;
        /* With unified addressing, host and device use the same address. */
        if ((code = cudaHostAlloc(&h->mapped, l.n * sizeof(float), cudaHostAllocMapped)))
            return cuda_failed(err, code, "cannot allocate page-locked memory");
        memset(h->mapped, 0, l.n * sizeof(float));
        l = (struct layout){.device = h->mapped};
    }
    return 0;
}

/* ---- graphs ---- */

static int capture(struct engine_hop *h, unsigned n_slots, cudaGraphExec_t *ret) {
    cudaGraph_t graph = NULL;
    int code = cudaStreamBeginCapture(h->stream, cudaStreamCaptureModeThreadLocal), ended;
    if (code)
        return code;
    code = hop_launch(&h->net, n_slots, h->stream);
    if ((ended = cudaStreamEndCapture(h->stream, &graph)) && !code)
        code = ended;
    if (!code)
        code = cudaGraphInstantiate(ret, graph, 0);
    if (!code)
        code = cudaGraphUpload(*ret, h->stream);
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

static int make_graphs(struct engine_hop *h, struct err *err) {
    const struct hop_shape *s = &h->net.shape;
    size_t needed;
    int code, most;
    if ((code = cudaStreamCreateWithFlags(&h->stream, cudaStreamNonBlocking)) ||
        (code = cudaEventCreateWithFlags(&h->finished, cudaEventBlockingSync | cudaEventDisableTiming)) ||
        (code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, h->head.device)))
        return cuda_failed(err, code, "cannot prepare the GPU");
    code = hop_prepare(&h->net, &needed);
    if (needed > (size_t)most)
        return err_set(err, -ENOTSUP,
                       "engine cuda: %s: channels = %u with %u kernels needs %zu KiB of shared memory, the GPU has %d",
                       model_name(h->head.common.model), s->channels, s->n_kernels, needed / 1024, most / 1024);
    if (code)
        return cuda_failed(err, code, "cannot prepare the kernels");
    for (unsigned i = 0; i < h->n_batches; i++)
        if ((code = capture(h, i + 1, &h->batches[i].graph)))
            return cuda_failed(err, code, "cannot capture the graph");
    if ((code = cudaStreamSynchronize(h->stream)))
        return cuda_failed(err, code, "cannot prepare the graph");
    return 0;
}

static void hop_close(struct engine *e) {
    struct engine_hop *h = (struct engine_hop *)e;
    for (unsigned i = 0; i < h->n_batches; i++)
        if (h->batches[i].graph)
            cudaGraphExecDestroy(h->batches[i].graph);
    if (h->finished)
        cudaEventDestroy(h->finished);
    if (h->stream)
        cudaStreamDestroy(h->stream);
    cudaFree(h->weights);
    cudaFree(h->scratch);
    cudaFree(h->net.shape.state);
    cudaFree(h->net.shape.slots);
    cudaFreeHost(h->mapped);
    for (unsigned b = 0; h->net.blocks && b < h->net.n_blocks; b++) {
        free(h->net.blocks[b].time);
        free(h->net.blocks[b].freq);
    }
    free(h->net.blocks);
    free(h->now);
    free(h);
}

static int hop_open(struct engine **ret, const struct engine *common, const struct engine_options *options,
                    struct err *err) {
    (void)options;
    struct engine_hop *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(err, -ENOMEM, "engine cuda: out of memory");
    h->head = *(const struct cuda_engine *)common;
    const char *wait = getenv("PRIMEKNET_CUDA_WAIT");
    h->wait = wait && !strcmp(wait, "spin") ? WAIT_SPIN : wait && !strcmp(wait, "block") ? WAIT_BLOCK : WAIT_NAP;
    struct cudaDeviceProp properties;
    int code = cudaGetDeviceProperties(&properties, h->head.device);
    if (code)
        code = cuda_failed(err, code, "cannot query the GPU");
    else {
        snprintf(h->name, sizeof h->name, "cuda (%.80s)", properties.name);
        h->head.common.name = h->name;
        if (allocate_host(h))
            code = err_set(err, -ENOMEM, "engine cuda: out of memory");
    }
    if (code || (code = upload(h, err)) || (code = allocate_device(h, err)) || (code = make_graphs(h, err))) {
        hop_close(&h->head.common);
        return code;
    }
    *ret = &h->head.common;
    return 0;
}

/* ---- one hop ---- */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Each sample carries its ticket in the same word, so neither the device nor the host needs a fence between samples and
 * ticket. */
static bool has_samples(const struct engine_hop *h) {
    for (unsigned i = h->n_slots * h->net.shape.hop; i-- > 0;)
        if (h->net.out[i] >> 32 != h->ticket)
            return false;
    return true;
}

static bool has_tails(const struct engine_hop *h) {
    for (unsigned i = 0; i < h->n_slots; i++)
        if (h->net.done[i] != h->ticket)
            return false;
    return true;
}

static bool spin(const struct engine_hop *h, bool (*is_done)(const struct engine_hop *), int64_t until_ns) {
    for (unsigned tries = 0; !is_done(h); tries++) {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
        if (tries % 64 == 63 && now_ns() > until_ns)
            return false;
    }
    return true;
}

/* The tails arrive a moment after the samples. */
static void settle(const struct engine_hop *h) {
    if (!spin(h, has_tails, now_ns() + SPIN_NS))
        cudaStreamSynchronize(h->stream); /* an error shows up at the next hop */
    atomic_thread_fence(memory_order_acquire);
}

/* Adapts the sleep before batches of this size. If the ticket is already there on waking, the sleep was too long:
 * shorten it. Otherwise the remaining wait shows by how much it was too short: lengthen it slowly. This also accounts
 * for the wakeup latency, which is higher without real-time priority. */
static int wait_for(struct engine_hop *h, int64_t *nap_ns) {
    const bool naps = h->wait == WAIT_NAP && *nap_ns > 0;
    if (naps)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)*nap_ns}, NULL);
    const bool overslept = naps && has_samples(h);
    const int64_t woke_ns = now_ns();
    bool done = h->wait != WAIT_BLOCK && spin(h, has_samples, woke_ns + SPIN_NS);
    if (!done && (cudaEventRecord(h->finished, h->stream) || cudaEventSynchronize(h->finished)))
        return -EIO;
    *nap_ns += overslept ? -*nap_ns / 32 : (now_ns() - woke_ns - MARGIN_NS) / 64;
    *nap_ns = *nap_ns < 0 ? 0 : *nap_ns > MOST_NS ? MOST_NS : *nap_ns;
    return has_samples(h) ? 0 : -EIO;
}

/* Runs hop `at` of each of these jobs. */
static int run_together(struct engine_hop *h, const struct engine_job *const *jobs, unsigned n_jobs, unsigned at) {
    const unsigned hop = h->net.shape.hop;
    struct batch *batch = &h->batches[n_jobs - 1];
    h->ticket++;
    h->n_slots = n_jobs;
    for (unsigned i = 0; i < n_jobs; i++) {
        const unsigned stream = jobs[i]->stream;
        const struct engine_control *control = &h->head.common.controls[stream];
        h->net.asked[i] = (struct hop_slot){.stream = stream, .now = h->now[stream], .ticket = h->ticket,
                                            .strength = control->strength, .floor = control->floor,
                                            .low_cut = control->low_cut};
        memcpy(h->net.in + (size_t)i * hop, jobs[i]->in + (size_t)at * hop, hop * sizeof *h->net.in);
        h->now[stream] = (h->now[stream] + 1) % h->n_frames;
    }
    if (cudaGraphLaunch(batch->graph, h->stream) || wait_for(h, &batch->nap_ns))
        return -EIO;
    for (unsigned i = 0; i < n_jobs; i++)
        for (unsigned k = 0; k < hop; k++) {
            const uint32_t bits = (uint32_t)h->net.out[i * hop + k];
            memcpy(jobs[i]->out + (size_t)at * hop + k, &bits, sizeof bits);
        }
    return 0;
}

static int hop_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    struct engine_hop *h = (struct engine_hop *)e;
    unsigned n_left = n_jobs;
    for (unsigned at = 0; n_left; at++) {
        const struct engine_job *together[HOP_MAX_SLOTS];
        unsigned n_together = 0;
        n_left = 0;
        for (unsigned j = 0; j < n_jobs; j++) {
            assert(jobs[j].stream < e->n_streams);
            if (at < jobs[j].n_hops) {
                together[n_together++] = &jobs[j];
                n_left++;
            }
            if (n_together == h->n_batches || (n_together && j + 1 == n_jobs)) {
                if (run_together(h, together, n_together, at))
                    return -EIO;
                n_together = 0;
            }
        }
    }
    return 0;
}

static void hop_reset(struct engine *e, unsigned stream, bool forgets) {
    struct engine_hop *h = (struct engine_hop *)e;
    const struct hop_shape *s = &h->net.shape;
    const size_t n_kept = s->synthesis - s->hop;
    if (forgets)
        h->now[stream] = 0;
    settle(h);
    memset(h->net.tail + stream * n_kept, 0, n_kept * sizeof *h->net.tail);
    /* past and overlap come before everything else; an error shows up at the next hop */
    cudaMemsetAsync(s->state + stream * s->n_state, 0, (forgets ? s->n_state : s->encoder) * sizeof(float), h->stream);
}

static void hop_tail(const struct engine *e, unsigned stream, float *tail) {
    const struct engine_hop *h = (const struct engine_hop *)e;
    const size_t n_kept = h->net.shape.synthesis - h->net.shape.hop;
    settle(h);
    memcpy(tail, h->net.tail + stream * n_kept, n_kept * sizeof *tail);
}

const struct engine_type cuda_hop = {
    .name = "cuda",
    .together = true,
    .open = hop_open,
    .close = hop_close,
    .process = hop_process,
    .reset = hop_reset,
    .tail = hop_tail,
};
