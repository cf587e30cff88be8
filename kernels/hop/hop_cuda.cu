#include "shape.cuh"

bool hop_fits(const hop_shape *s) {
    const unsigned c = s->channels;
    return (c == 16 || c == 32 || c == 64) && (s->window == 1024 || s->window == 1280) && s->synthesis <= 1024 &&
           is_usual(*s);
}

size_t hop_packed(const hop_shape *s, unsigned n_in, unsigned n_out) {
    const unsigned n_groups = THREADS / share_of(*s) / lanes_for(s->channels);
    const unsigned n_each = (n_out + n_groups - 1) / n_groups;
    return (size_t)n_each * n_groups * n_in;
}

void hop_pack(float *to, const hop_shape *s, unsigned n_in, unsigned n_out, unsigned o, const float *row, double mean) {
    const unsigned lanes = lanes_for(s->channels), n_threads = THREADS / share_of(*s), n_groups = n_threads / lanes,
                   n_each = (n_out + n_groups - 1) / n_groups, n_steps = n_in / (4 * lanes);
    const unsigned group = is_usual(*s) ? o / n_each : o % n_groups;
    for (unsigned i = 0; i < n_in; i++) {
        const unsigned step = i / (4 * lanes), lane = i / 4 % lanes, thread = group * lanes + lane;
        const unsigned m = is_usual(*s) ? o % n_each ^ lane * n_each / lanes : o / n_groups; /* layer.cuh */
        to[4 * ((m * n_steps + step) * (size_t)n_threads + thread) + i % 4] = (float)(row[i] - mean);
    }
}

static const hop_chain &chain_for(const hop_shape &s) {
    switch (is_usual(s) ? s.channels : 0) {
    case 16: return hop_chain_16;
    case 32: return hop_chain_32;
    case 64: return hop_chain_64;
    default: return hop_chain_any;
    }
}

int hop_prepare(const hop_net *n, size_t *needed) {
    *needed = needed_bytes(n->shape);
    return chain_for(n->shape).prepare(n->shape);
}

int hop_launch(const hop_net *n, unsigned n_slots, cudaStream_t stream) {
    return chain_for(n->shape).launch(*n, n_slots, stream);
}
