#include "chain.cuh"

/* A chain with all sizes but its number of channels. */
template <class F> static auto with_chain(unsigned channels, F f) {
    switch (channels) {
    case 16: return f(chain<16>());
    case 32: return f(chain<32>());
    default: return f(chain<64>());
    }
}

bool hop_fits(const hop_shape *s) {
    for (unsigned k = 0; k < s->n_kernels; k++)
        if (s->first_segment[k + 1] - s->first_segment[k] > MOST_SEGMENTS)
            return false;
    const unsigned c = s->channels;
    return (c == 16 || c == 32 || c == 64) && (s->window == 1024 || s->window == 1280) &&
           s->synthesis <= MOST_SYNTHESIS && s->n_half == N_HALF && s->depth == DEPTH && s->n_kernels == N_KERNELS &&
           s->n_segments * c <= threads_for(c) && s->d_inner == 2 * c && s->d_state == N_STATES &&
           s->step_rank == c / 16 && s->d_conv == N_PAST + 1;
}

size_t hop_packed(unsigned channels, unsigned n_in, unsigned n_out) {
    const unsigned n_groups = threads_for(channels) / lanes_for(channels);
    return (size_t)(n_out + n_groups - 1) / n_groups * n_groups * n_in;
}

void hop_pack(float *to, unsigned channels, unsigned n_in, unsigned n_out, unsigned o, const float *row, double mean) {
    const unsigned lanes = lanes_for(channels), n_threads = threads_for(channels), n_groups = n_threads / lanes,
                   n_each = (n_out + n_groups - 1) / n_groups, n_steps = n_in / (4 * lanes);
    for (unsigned i = 0; i < n_in; i++) {
        const unsigned step = i / (4 * lanes), lane = i / 4 % lanes, thread = o / n_each * lanes + lane;
        const unsigned m = o % n_each ^ lane * n_each / lanes; /* layer.cuh */
        to[4 * ((m * n_steps + step) * (size_t)n_threads + thread) + i % 4] = (float)(row[i] - mean);
    }
}

int hop_prepare(const hop_net *n) {
    return with_chain(n->shape.channels, [&](auto of) { return of.prepare(n->shape); });
}

int hop_launch(const hop_net *n, unsigned n_slots, cudaStream_t stream) {
    return with_chain(n->shape.channels, [&](auto of) { return of.launch(*n, n_slots, stream); });
}
