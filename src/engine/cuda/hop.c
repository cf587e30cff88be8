/* hop.c - runs networks of the shipped shapes hop by hop on the GPU, for live sound. The whole path from samples to
 * samples is one CUDA graph, captured for each number of streams in a batch, up to HOP_MAX_SLOTS, and then replayed.
 *
 * Samples, tails and controls pass through page-locked memory that the device can access, so a hop is one launch and
 * one wait. The last kernel writes a ticket when its samples are complete. To save processor time, the host sleeps for
 * most of the time that recent hops took. Then it polls for the ticket for a while; if the ticket does not arrive, it
 * blocks in the driver, which also reports errors. */
#include "engine/cuda/cuda.h"

#include "engine/cuda/capture.h"
#include "engine/cuda/pack.h"
#include "kernels/fft/fft_cuda.h"
#include "kernels/hop/hop_cuda.h"
#include "net/plan.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <errno.h>
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
    void *weights, *scratch; /* on the device, like net.shape.state and .slots */
    void *mapped;
    unsigned *now;                      /* [n_streams]: frames so far, modulo n_frames */
    unsigned n_frames, ticket, n_slots; /* ticket and n_slots: of the last hop */
    cudaStream_t stream;
    cudaEvent_t finished;
    unsigned n_batches;
    struct batch {
        cudaGraphExec_t graph;
        int64_t nap_ns;       /* sleep before polling */
    } batches[HOP_MAX_SLOTS]; /* [n_batches]: of 1, 2, ... slots */
};

/* ---- weights ---- */

/* Packs the plan's operations one after another: the kernels run them in this order, and fused in this way. */
struct layout {
    struct arena *a;
    const struct hop_shape *shape;
    const struct op *op; /* the next one */
};

static const struct op *next(struct layout *l, enum op_kind kind, enum linear_of of) {
    const struct op *op = l->op++;
    assert(op->kind == kind && op->of == of);
    return op;
}

static double mean_of(const float *row, unsigned n) {
    double mean = 0;
    for (unsigned i = 0; i < n; i++)
        mean += row[i] / n;
    return mean;
}

/* Weights behind a norm are shifted to a sum of 0, which removes the mean of their inputs. */
static struct hop_linear packed(struct layout *l, const struct op *op, bool gate) {
    const unsigned n_in = op->linear->n_in, n_out = op->linear->n_out, c = l->shape->channels;
    float *weight, *bias;
    struct hop_linear to = {.weight = arena_place(l->a, hop_packed(c, n_in, n_out), &weight),
                            .bias = arena_place(l->a, n_out, &bias),
                            .prelu = op->prelu ? arena_copy(l->a, op->prelu, n_out) : NULL};
    for (unsigned o = 0; weight && o < n_out; o++) {
        const unsigned place = gate ? gate_place(o, n_out) : o;
        const float *row = op->linear->weight + (size_t)o * n_in;
        hop_pack(weight, c, n_in, n_out, place, row, op->of == LINEAR_OF_NORM ? mean_of(row, n_in) : 0);
        bias[place] = op->linear->bias ? op->linear->bias[o] : 0;
    }
    return to;
}

static struct hop_linear linear(struct layout *l, enum linear_of of) {
    return packed(l, next(l, OP_LINEAR, of), false);
}

static struct hop_linear gate_layout(struct layout *l) {
    return packed(l, next(l, OP_LINEAR, LINEAR_OF_NORM), true);
}

static void dense_layout(struct layout *l, struct hop_dense *d) {
    for (unsigned i = 0; i < l->shape->depth; i++) {
        const struct op *op = next(l, OP_DENSE, LINEAR_OF_MAP);
        d->taps[i] = arena_copy(l->a, op->taps, 9 * (size_t)(i + 1) * l->shape->channels);
        d->mix[i] = packed(l, op, false);
    }
}

static void time_layout(struct layout *l, struct hop_time *t, const float **skip) {
    const struct hop_shape *s = l->shape;
    t->gate = gate_layout(l);
    t->proj = linear(l, LINEAR_OF_GATE);
    t->in = linear(l, LINEAR_OF_NORM);
    const struct op *conv = next(l, OP_CONV, LINEAR_OF_MAP);
    t->conv_taps = arena_copy(l->a, conv->taps, (size_t)s->d_conv * s->d_inner);
    t->conv_bias = arena_copy(l->a, conv->bias, s->d_inner);
    t->select = linear(l, LINEAR_OF_MAP);
    const struct op *scan = next(l, OP_SCAN, LINEAR_OF_MAP);
    t->step.weight = arena_transposed(l->a, scan->linear->weight, s->d_inner, s->step_rank, s->d_inner);
    t->step.bias = arena_copy(l->a, scan->linear->bias, s->d_inner);
    t->decay = arena_decay(l->a, scan->decay, s->d_inner, s->d_state);
    t->pass = arena_copy(l->a, scan->pass, s->d_inner);
    const struct op *out = next(l, OP_LINEAR, LINEAR_OF_MAP);
    t->out = packed(l, out, false);
    if (out->skip)
        *skip = arena_copy(l->a, out->blend, s->channels);
}

static void freq_layout(struct layout *l, struct hop_freq *f, const float **skip) {
    const struct hop_shape *s = l->shape;
    const unsigned c = s->channels, width = s->n_kernels * c;
    float *gate_taps, *taps, *mix, *bias;
    f->gate = gate_layout(l);
    f->gate_taps = arena_place(l->a, 3 * 2 * (size_t)c, &gate_taps);
    const struct op *gate = next(l, OP_DEPTHWISE, LINEAR_OF_MAP);
    for (unsigned k = 0; gate_taps && k < 3 * 2 * c; k++)
        gate_taps[k / (2 * c) * 2 * c + gate_place(k % (2 * c), 2 * c)] = gate->taps[k];
    f->attention = packed(l, next(l, OP_ATTEND, LINEAR_OF_MAP), false);
    f->proj = linear(l, LINEAR_OF_MAP);
    f->up = linear(l, LINEAR_OF_NORM);
    f->taps = arena_place(l->a, (size_t)s->n_segments * HOP_TAPS * c * 2, &taps);
    f->mix.weight = arena_place(l->a, hop_packed(c, c, width), &mix);
    f->mix.bias = arena_place(l->a, width, &bias);
    for (unsigned p = 0; p < s->n_kernels; p++) {
        const struct op *prime = next(l, OP_PRIME, LINEAR_OF_MAP);
        float *to = taps + (size_t)s->first_segment[p] * HOP_TAPS * c * 2;
        for (size_t k = 0; taps && k < (size_t)prime->n_taps * c; k++) {
            to[2 * k] = prime->mixed_taps[k];
            to[2 * k + 1] = prime->taps[k];
        }
        for (unsigned o = 0; taps && o < c; o++) {
            hop_pack(mix, c, c, width, p * c + o, prime->linear->weight + (size_t)o * c, 0);
            bias[p * c + o] = prime->linear->bias[o];
        }
    }
    const struct op *down = next(l, OP_LINEAR, LINEAR_OF_CONVS);
    f->down = packed(l, down, false);
    if (down->skip)
        *skip = arena_copy(l->a, down->blend, c);
}

static void decoder_layout(struct layout *l, struct hop_dense *d, struct hop_up *u) {
    dense_layout(l, d);
    u->even = linear(l, LINEAR_OF_MAP);
    u->odd = linear(l, LINEAR_OF_MAP);
    const struct linear_weights *head = next(l, OP_LINEAR, LINEAR_OF_MAP)->linear;
    u->head_weight = arena_copy(l->a, head->weight, (size_t)head->n_out * head->n_in);
    u->head_bias = arena_copy(l->a, head->bias, head->n_out);
}

static void network_layout(struct layout *l, struct hop_net *n) {
    const unsigned c = n->shape.channels;
    const struct op *embed = next(l, OP_LINEAR, LINEAR_OF_MAP);
    n->embed_weight = arena_transposed(l->a, embed->linear->weight, c, 3, c);
    n->embed_bias = arena_copy(l->a, embed->linear->bias, c);
    n->embed_prelu = arena_copy(l->a, embed->prelu, c);
    dense_layout(l, &n->encoder);
    n->down = linear(l, LINEAR_OF_MAP);
    for (struct hop_block *b = n->blocks; b < n->blocks + n->n_blocks; b++) {
        for (unsigned i = 0; i < n->n_time; i++) {
            b->time[i].index = (unsigned)(b - n->blocks) * n->n_time + i;
            time_layout(l, &b->time[i], &b->time_skip);
        }
        for (unsigned i = 0; i < n->n_freq; i++)
            freq_layout(l, &b->freq[i], &b->freq_skip);
    }
    for (unsigned i = 0; i < 2; i++)
        decoder_layout(l, &n->decoders[i], &n->ups[i]);
}

static void weights_layout(struct arena *a, const struct model *m, const struct plan *p, struct hop_net *n) {
    const struct model_config *g = model_config(m);
    const struct weights *w = model_weights(m);
    struct layout l = {a, &n->shape, p->ops};
    float *roots;
    n->analysis_window = arena_copy(a, w->analysis_window, g->window);
    n->synthesis_window = arena_copy(a, w->synthesis_window, g->synthesis);
    n->roots = arena_place(a, 2 * (size_t)g->window, &roots);
    if (roots)
        fft_roots(roots, g->window);
    const struct bands bands = arena_bands(a, g);
    n->band_edges = bands.edges;
    n->bin_bands = bands.below;
    n->bin_shares = bands.share;
    n->slope = arena_copy(a, p->mask_slope, g->n_positions);
    network_layout(&l, n);
    assert(l.op == p->ops + p->n_ops);
}

/* ---- memory ---- */

_Static_assert((int)HOP_MAX_DEPTH == MODEL_MAX_DEPTH && (int)HOP_MAX_KERNELS == MODEL_MAX_KERNELS &&
                   (int)HOP_MAX_TIME == MODEL_MAX_LAYERS && (int)HOP_LOUDEST == ENGINE_LOUDEST,
               "the kernels' limits are the model's");

static struct hop_shape shape_of(const struct model_config *g) {
    struct hop_shape s = {.window = g->window,
                          .synthesis = g->synthesis,
                          .hop = g->hop,
                          .n_bins = g->n_bins,
                          .n_linear = g->n_linear,
                          .n_bands = g->n_bands,
                          .n_positions = g->n_positions,
                          .n_half = g->n_half,
                          .channels = g->channels,
                          .depth = g->depth,
                          .n_kernels = g->n_kernels,
                          .d_inner = g->d_inner,
                          .d_state = g->d_state,
                          .d_conv = g->d_conv,
                          .step_rank = g->step_rank,
                          .n_ring = (1u << g->depth) + 1,
                          .scale = g->scale,
                          .compression = g->compression,
                          .mask_ceiling = g->mask_ceiling,
                          .mask_minimum = g->mask_minimum,
                          .band_gain_maximum = g->band_gain_maximum,
                          .rotation_epsilon = g->rotation_epsilon,
                          .magnitude_minimum = g->magnitude_minimum,
                          .power_minimum = g->power_minimum,
                          .norm_epsilon = g->norm_epsilon};
    for (unsigned k = 0; k < g->n_kernels; k++) {
        for (unsigned at = 0; at < g->kernels[k]; at += HOP_TAPS) {
            s.segments[s.n_segments].kernel = k;
            s.segments[s.n_segments++].offset = (int)at - (int)(g->kernels[k] / 2);
        }
        s.first_segment[k + 1] = s.n_segments;
    }
    const size_t frame = (size_t)g->n_half * g->channels, rings = (size_t)g->depth * s.n_ring,
                 inner = (size_t)g->n_blocks * g->n_time * g->n_half * g->d_inner;
    s.overlap = s.past + g->window - g->hop;
    s.encoder = s.overlap + g->synthesis - g->hop;
    s.mask = s.encoder + rings * g->n_positions * g->channels;
    s.phase = s.mask + rings * frame;
    s.conv = s.phase + rings * frame;
    s.scan = s.conv + (g->d_conv - 1) * inner;
    s.n_state = s.scan + g->d_state * inner;
    return s;
}

bool cuda_hop_fits(const struct model *m) {
    if (model_config(m)->mixer != MODEL_MAMBA)
        return false;
    const struct hop_shape s = shape_of(model_config(m));
    return hop_fits(&s);
}

static void scratch_layout(struct arena *a, const struct hop_shape *s, size_t n, struct hop_scratch *to) {
    const size_t half = (size_t)s->n_half * s->channels;
    to->spectrum = arena_take(a, n * 2 * s->n_bins);
    to->features = arena_take(a, n * 3 * s->n_positions);
    to->encoded = arena_take(a, n * s->n_positions * s->channels);
    to->x = arena_take(a, n * half);
    to->skip = arena_take(a, n * half);
    to->gates = arena_take(a, n * 2 * half);
    to->chunks = arena_take(a, n * s->n_kernels * half);
    to->decoded = arena_take(a, n * 2 * half);
    to->gain = arena_take(a, n * s->n_positions);
    to->rotation = arena_take(a, n * 2 * s->n_positions);
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
    h->n_frames = n->shape.n_ring * (g->d_conv - 1);
    return 0;
}

static int upload(struct engine_hop *h, struct err *err) {
    struct plan *plan;
    struct arena a = {0};
    if (plan_new(&plan, h->head.common.model))
        return err_set(err, -ENOMEM, "engine cuda: out of memory");
    weights_layout(&a, h->head.common.model, plan, &h->net);
    const size_t size = a.used;
    int code = cudaMalloc(&h->weights, size);
    if (code)
        code = cuda_failed(err, code, "cannot allocate memory for the model");
    else if (!(a.mirror = calloc(1, size)))
        code = err_set(err, -ENOMEM, "engine cuda: out of memory");
    else {
        a.base = h->weights;
        a.used = 0;
        weights_layout(&a, h->head.common.model, plan, &h->net);
        if ((code = cudaMemcpy(h->weights, a.mirror, size, cudaMemcpyHostToDevice)))
            code = cuda_failed(err, code, "cannot copy the model");
    }
    free(a.mirror);
    plan_free(plan);
    return code;
}

static int allocate_device(struct engine_hop *h, struct err *err) {
    const unsigned n_streams = h->head.common.n_streams, n_slots = h->n_batches;
    struct hop_net *n = &h->net;
    struct hop_shape *s = &n->shape;
    const size_t size = n_streams * s->n_state * sizeof(float);
    struct arena a = {0};
    scratch_layout(&a, s, n_slots, &n->scratch);
    int code;
    if ((code = cudaMalloc((void **)&s->state, size)) || (code = cudaMemset(s->state, 0, size)) ||
        (code = cudaMalloc(&h->scratch, a.used)) ||
        (code = cudaMalloc((void **)&s->slots, n_slots * sizeof *s->slots)) ||
        (code = cudaMemset(s->slots, 0, n_slots * sizeof *s->slots)))
        return cuda_failed(err, code, "cannot allocate memory for the streams");
    a = (struct arena){.base = h->scratch};
    scratch_layout(&a, s, n_slots, &n->scratch);

    /* Slots and tickets, then the arrays of floats, each starting on its own cache line. */
    const size_t n_kept = s->synthesis - s->hop;
    a = (struct arena){0};
    for (unsigned pass = 0; pass < 2; pass++) {
        n->asked = (struct hop_slot *)arena_take(&a, n_slots * sizeof *n->asked / sizeof(float));
        n->done = (volatile unsigned *)arena_take(&a, n_slots);
        n->in = arena_take(&a, (size_t)n_slots * s->hop);
        n->out = (volatile unsigned long long *)arena_take(&a, 2 * (size_t)n_slots * s->hop);
        n->tail = arena_take(&a, n_streams * n_kept);
        if (pass)
            break;
        /* With unified addressing, host and device use the same address. */
        if ((code = cudaHostAlloc(&h->mapped, a.used, cudaHostAllocMapped)))
            return cuda_failed(err, code, "cannot allocate page-locked memory");
        memset(h->mapped, 0, a.used);
        a = (struct arena){.base = h->mapped};
    }
    return 0;
}

/* ---- graphs ---- */

static int make_graph(struct engine_hop *h, unsigned n_slots, cudaGraphExec_t *ret) {
    const int code = capture_begin(h->stream);
    return code ? code : capture_end(h->stream, hop_launch(&h->net, n_slots, h->stream), ret);
}

static int make_graphs(struct engine_hop *h, struct err *err) {
    int code;
    if ((code = cudaStreamCreateWithFlags(&h->stream, cudaStreamNonBlocking)) ||
        (code = cudaEventCreateWithFlags(&h->finished, cudaEventBlockingSync | cudaEventDisableTiming)))
        return cuda_failed(err, code, "cannot prepare the GPU");
    if ((code = hop_prepare(&h->net)))
        return cuda_failed(err, code, "cannot prepare the kernels");
    for (unsigned i = 0; i < h->n_batches; i++)
        if ((code = make_graph(h, i + 1, &h->batches[i].graph)))
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
        h->net.asked[i] = (struct hop_slot){.stream = stream,
                                            .now = h->now[stream],
                                            .ticket = h->ticket,
                                            .strength = control->strength,
                                            .floor = control->floor,
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
