/* chain.cuh - launches a hop's kernels in order, for one number of channels. Each kernel is built for several numbers
 * of positions per block; the chain uses the one whose blocks, for all slots, run in the fewest rounds on the GPU. */
#ifndef PRIMEKNET_HOP_CHAIN_CUH
#define PRIMEKNET_HOP_CHAIN_CUH

#include "dense.cuh"
#include "frequency.cuh"
#include "head.cuh"
#include "spectrum.cuh"

static inline unsigned blocks_for(unsigned n_rows, unsigned n_each) {
    return (n_rows + n_each - 1) / n_each;
}

/* Of the current device; 0 if unknown. */
static inline unsigned n_multiprocessors(void) {
    int device, n = 0;
    if (!cudaGetDevice(&device))
        cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return (unsigned)n;
}

/* Each kernel of the middle part is built for this many numbers of positions per block: the fewest, twice as many, and
 * MOST_TURNS times. */
enum { N_SIZES = 3 };

/* A kernel that computes n positions per block. */
template <class Args> struct sized {
    unsigned n;
    void (*kernel)(Args);
};

template <unsigned C> struct chain {
    static constexpr unsigned n_threads = widths<C>::threads;

    /* Kernels by number of positions, fewest first: these have the most blocks, each of which ends soonest. */
    static constexpr sized<dense_args> denses[4] = {
        {2, dense<C, 2>}, {4, dense<C, 4>}, {5, dense<C, 5>}, {MOST_DEEP_ROWS, dense<C, MOST_DEEP_ROWS>}};
    static constexpr sized<down_args> downs[N_SIZES] = {
        {1, down<C, 1>}, {2, down<C, 2>}, {MOST_TURNS, down<C, MOST_TURNS>}};
    static constexpr sized<attend_args> attends[N_SIZES] = {
        {1, attend<C, 1>}, {2, attend<C, 2>}, {MOST_TURNS, attend<C, MOST_TURNS>}};
    static constexpr sized<prime_args> primes[N_SIZES] = {
        {1, prime<C, 1, false>}, {2, prime<C, 2, false>}, {MOST_TURNS, prime<C, MOST_TURNS, false>}};
    static constexpr sized<prime_args> primes_time[N_SIZES] = {
        {1, prime<C, 1, true>}, {2, prime<C, 2, true>}, {MOST_TURNS, prime<C, MOST_TURNS, true>}};
    static constexpr sized<up_args> ups[N_SIZES] = {
        {UP_ROWS, up<C, 1>}, {2 * UP_ROWS, up<C, 2>}, {MOST_TURNS * UP_ROWS, up<C, MOST_TURNS>}};

    static auto analysis(const hop_shape &s) {
        return s.window == 1280 ? analyse<640> : analyse<512>;
    }

    static auto synthesis(const hop_shape &s) {
        return s.window == 1280 ? synthesise<640> : synthesise<512>;
    }

    static int prepare(const hop_shape &s) {
        const size_t bytes = most_bytes(s);
        int code = cudaSuccess;
        const auto ready = [&](auto kernel) {
            if (!code)
                code = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            (int)bytes);
        };
        for (const auto &of : denses)
            ready(of.kernel);
        for (unsigned i = 0; i < N_SIZES; i++) {
            ready(downs[i].kernel);
            ready(primes[i].kernel);
            ready(primes_time[i].kernel);
            ready(ups[i].kernel);
        }
        ready(analysis(s));
        ready(synthesis(s));
        return code;
    }

    /* The kernel of a table whose blocks take the fewest rounds, each of as many as the GPU runs at once; of several,
     * the first. A round is a chain of small steps, which takes hardly longer with more positions. n_beside blocks per
     * slot work on the same positions. */
    template <class Args, unsigned N>
    static const sized<Args> &fitting(const sized<Args> (&table)[N], unsigned n_rows, unsigned n_beside,
                                      unsigned n_slots) {
        const unsigned n_places = max(n_multiprocessors() * widths<C>::share, 1);
        const auto n_rounds = [&](const sized<Args> &of) {
            return blocks_for(blocks_for(n_rows, of.n) * n_beside * n_slots, n_places);
        };
        const sized<Args> *best = table;
        for (const auto &of : table)
            if (n_rounds(of) < n_rounds(*best))
                best = &of;
        return *best;
    }

    static void run_dense(const hop_net &n, unsigned n_slots, cudaStream_t stream, bool encoder) {
        const hop_shape &s = n.shape;
        const unsigned n_rows = encoder ? s.n_positions : s.n_half, n_blocks = encoder ? 1 : 2;
        const embedding embed = {encoder ? n.scratch.features : NULL, n.embed_weight, n.embed_bias, n.embed_prelu};
        const size_t rings[2] = {encoder ? s.encoder : s.mask, s.phase};
        float *const y[2] = {encoder ? n.scratch.encoded : n.scratch.decoded,
                             n.scratch.decoded + (size_t)s.n_half * s.channels};
        dense_args a = {s, n_rows, encoder ? n.asked : NULL, embed, n.scratch.x, {}};
        for (unsigned b = 0; b < n_blocks; b++) {
            const hop_dense &d = encoder ? n.encoder : n.decoders[b];
            a.blocks[b].ring = rings[b];
            a.blocks[b].y = y[b];
            for (unsigned i = 0; i < DEPTH; i++) {
                a.blocks[b].taps[i] = d.taps[i];
                a.blocks[b].mix[i] = d.mix[i];
            }
        }
        const auto &of = fitting(denses, n_rows, n_blocks, n_slots);
        start(of.kernel, dim3(blocks_for(n_rows, of.n), n_slots, n_blocks), n_threads,
              dense_floats(s, of.n) * sizeof(float), stream, a);
    }

    /* What follows, at the same positions, before frequency layer `layer` of block `block`. */
    static follow_args before(const hop_net &n, unsigned block, unsigned layer) {
        follow_args a = {};
        a.x = n.scratch.x;
        a.skip = n.scratch.skip;
        a.gates = n.scratch.gates;
        if (block == n.n_blocks)
            return a;
        const hop_block &b = n.blocks[block];
        if (layer == 0) {
            a.n_time = n.n_time;
            for (unsigned i = 0; i < n.n_time; i++)
                a.time[i] = b.time[i];
            a.time_skip = b.time_skip;
        }
        a.gate = b.freq[layer].gate;
        return a;
    }

    static int launch(const hop_net &n, unsigned n_slots, cudaStream_t stream) {
        const hop_shape &s = n.shape;
        const auto &down = fitting(downs, s.n_half, 1, n_slots);
        const auto &up = fitting(ups, s.n_half + 1, 2, n_slots);
        const unsigned which = &down - downs; /* the tables of the middle part's kernels have the same sizes */
        const dim3 grid(blocks_for(s.n_half, down.n), n_slots), up_grid(blocks_for(s.n_half + 1, up.n), n_slots, 2);
        const size_t bytes = shared_bytes(s, down.n);
        start(analysis(s), dim3(1, n_slots), THREADS, fft_bytes(s), stream,
              analyse_args{s, n.asked, n.in, n.analysis_window, n.roots, n.band_edges, n.scratch.spectrum,
                           n.scratch.features});
        run_dense(n, n_slots, stream, true);
        start(down.kernel, grid, n_threads, bytes, stream, down_args{s, n.scratch.encoded, n.down, before(n, 0, 0)});
        for (unsigned b = 0; b < n.n_blocks; b++)
            for (unsigned i = 0; i < n.n_freq; i++) {
                const hop_freq &f = n.blocks[b].freq[i];
                const bool last = i + 1 == n.n_freq;
                start(attends[which].kernel, grid, n_threads, sizeof(float) * (2 * down.n + 2) * s.channels, stream,
                      attend_args{s, f.gate_taps, n.scratch.gates, f.attention, f.proj, f.up, n.scratch.x,
                                  n.scratch.chunks});
                const follow_args follow = last ? before(n, b + 1, 0) : before(n, b, i + 1);
                start((follow.n_time ? primes_time : primes)[which].kernel, grid, n_threads, bytes, stream,
                      prime_args{s, f.taps, n.scratch.chunks, f.mix, f.down, last ? n.blocks[b].freq_skip : NULL,
                                 follow});
            }
        run_dense(n, n_slots, stream, false);
        start(up.kernel, up_grid, n_threads, shared_bytes(s, up.n / UP_ROWS), stream,
              up_args{s, n.scratch.decoded, {n.ups[0], n.ups[1]}, n.slope, n.scratch.gain, n.scratch.rotation});
        start(synthesis(s), dim3(1, n_slots), THREADS, fft_bytes(s), stream,
              synthesise_args{s, n.scratch.spectrum, n.scratch.gain, n.scratch.rotation, n.synthesis_window, n.roots,
                              n.bin_bands, n.bin_shares, n.out, n.tail, n.done});
        return cudaGetLastError();
    }
};

#endif
