// nodes [KERNELS...]: what a hop's graph costs beside the network, host to host, p50 and p99 of 20 000 replays.
//
// First graphs of so many empty kernels (1, 22 and 100), each waiting for the one before, with and without programmatic
// dependent launch: no hop of as many kernels can be faster. Then ways of launching them, back to back and paced as
// live sound is: as one graph; as one that is launched ahead, when the hop before is done, behind a wait for a word
// that the host writes when the next hop is there; as two graphs, the first of one kernel. Then analysis and synthesis
// alone, for a window of 1024 and hops of 256: the engine's two kernels, and cuFFT's transforms with the least that
// must stand around them (windows, overlap-add, samples to and from the host), where libcufft is to be had. Built by
// bench/cuda-bundle.
#include "kernels/hop/chain.cuh"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cuda.h>
#include <cufft.h>
#include <dlfcn.h>
#include <sys/prctl.h>
#include <vector>

enum { WINDOW = 1024, HOP = 256, N_REPLAYS = 20000, N_PACED = 500 };

static void check(int code, const char *what) {
    if (code) {
        fprintf(stderr, "nodes: %s: %s\n", what, cudaGetErrorString((cudaError_t)code));
        exit(1);
    }
}

static double now_us() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

template <class T> static T *device(size_t n) {
    void *p;
    check(cudaMalloc(&p, n * sizeof(T)), "memory");
    check(cudaMemset(p, 0, n * sizeof(T)), "memory");
    return (T *)p;
}

template <class T> static T *mapped(size_t n) {
    void *p;
    check(cudaHostAlloc(&p, n * sizeof(T), cudaHostAllocMapped), "page-locked memory");
    memset(p, 0, n * sizeof(T));
    return (T *)p;
}

static cudaStream_t stream;
static volatile unsigned *done;
static unsigned *asked;

template <class Launch> static cudaGraphExec_t captured(Launch launch) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    launch();
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphInstantiate(&ready, graph, 0), "graph");
    check(cudaGraphUpload(ready, stream), "graph");
    check(cudaStreamSynchronize(stream), "graph");
    cudaGraphDestroy(graph);
    return ready;
}

static void print(const char *name, std::vector<float> &us) {
    std::sort(us.begin(), us.end());
    printf("%-72s p50 %6.1f us, p99 %6.1f us\n", name, us[us.size() / 2], us[us.size() * 99 / 100]);
    fflush(stdout);
}

static void wait_for(unsigned ticket) {
    const double started = now_us();
    while (*done != ticket)
        if (now_us() - started > 1e6)
            check(cudaStreamSynchronize(stream), "waiting"), exit(1);
}

// Times the graph of what `launch` launches, whose last kernel writes *asked to *done.
template <class Launch> static void measure(const char *name, Launch launch) {
    const cudaGraphExec_t ready = captured(launch);
    std::vector<float> us;
    for (unsigned i = 0; i < N_REPLAYS + 200; i++) {
        const double started = now_us();
        const unsigned ticket = ++*asked;
        check(cudaGraphLaunch(ready, stream), name);
        wait_for(ticket);
        if (i >= 200)
            us.push_back((float)(now_us() - started));
    }
    print(name, us);
    cudaGraphExecDestroy(ready);
}

struct empty_args {
    const unsigned *asked;
    volatile unsigned *done;
};

static __global__ void empty(const __grid_constant__ empty_args a) {
    await();
    if (a.done && threadIdx.x == 0 && blockIdx.x == 0)
        *a.done = *a.asked;
}

static void empty_nodes(unsigned n, bool overlap) {
    for (unsigned i = 0; i < n; i++) {
        const empty_args a = {asked, i + 1 == n ? done : nullptr};
        if (overlap)
            start(empty, dim3(50), THREADS, 0, stream, a);
        else
            empty<<<50, THREADS, 0, stream>>>(a);
    }
}

enum way { WHOLE, AHEAD, SPLIT };

// n empty kernels launched one of these ways, N_PACED times in real time or as often as a whole graph is.
static void measure_way(unsigned n, way how, bool paced) {
    static const char *const names[] = {"one graph", "one graph, launched ahead", "a graph of 1, one of the others"};
    decltype(&cuStreamWaitValue32) wait_value = nullptr;
    check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, 0, nullptr),
          "cuStreamWaitValue32");
    std::vector<cudaGraphExec_t> graphs;
    if (how == SPLIT)
        graphs.push_back(captured([] { start(empty, dim3(50), THREADS, 0, stream, empty_args{}); }));
    graphs.push_back(captured([=] { empty_nodes(n - (how == SPLIT), true); }));
    std::vector<float> us, launch_us;
    timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (unsigned i = 0; i < 200 + (paced ? N_PACED : N_REPLAYS); i++) {
        const unsigned ticket = *asked + 1;
        const auto launch = [&] {
            const double started = now_us();
            // Until *asked has come to the ticket or is beyond it.
            if (how == AHEAD && wait_value((CUstream)stream, (CUdeviceptr)asked, ticket, CU_STREAM_WAIT_VALUE_GEQ))
                check(cudaErrorUnknown, "cuStreamWaitValue32");
            for (cudaGraphExec_t graph : graphs)
                check(cudaGraphLaunch(graph, stream), names[how]);
            launch_us.push_back((float)(now_us() - started));
        };
        if (how == AHEAD)
            launch();
        if (paced) {
            due.tv_nsec += 1000000000L * HOP / 48000;
            due.tv_sec += due.tv_nsec / 1000000000;
            due.tv_nsec %= 1000000000;
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
        }
        const double started = now_us();
        *(volatile unsigned *)asked = ticket;
        if (how != AHEAD)
            launch();
        wait_for(ticket);
        us.push_back((float)(now_us() - started));
    }
    char name[100];
    for (const bool whole : {true, false}) {
        std::vector<float> &v = whole ? us : launch_us;
        v.erase(v.begin(), v.begin() + 200);
        snprintf(name, sizeof name, "%u empty kernels, %s, %s%s", n, names[how], paced ? "paced" : "back to back",
                 whole ? "" : ": the launch");
        print(name, v);
    }
    for (cudaGraphExec_t graph : graphs)
        cudaGraphExecDestroy(graph);
}

// Samples and past through the window, and back: window, overlap-add, the past of the next hop.
static __global__ void before_cufft(const float *in, float *past, const float *window, float *frame) {
    const unsigned i = threadIdx.x;
    const float v = i < WINDOW - HOP ? past[i + HOP] : in[i - (WINDOW - HOP)];
    frame[i] = v * window[i];
    __syncthreads();
    past[i] = v;
}

static __global__ void after_cufft(const float *frame, const float *window, float *overlap, float *out,
                                   const unsigned *asked, volatile unsigned *done) {
    const unsigned i = threadIdx.x;
    const float v = frame[i] * window[i] / WINDOW + (i < WINDOW - HOP ? overlap[i] : 0);
    __syncthreads();
    if (i < HOP)
        out[i] = v;
    else
        overlap[i - HOP] = v;
    __syncthreads();
    if (i == 0) {
        __threadfence_system();
        *done = *asked;
    }
}

static void cufft_nodes(const float *window, const float *in, float *out) {
    void *library = nullptr;
    for (const char *name : {"libcufft.so.12", "libcufft.so.11"})
        if (!library)
            library = dlopen(name, RTLD_NOW);
    if (!library) {
        printf("cuFFT: %s\n", dlerror());
        return;
    }
    const auto plan = (decltype(&cufftPlan1d))dlsym(library, "cufftPlan1d");
    const auto set_stream = (decltype(&cufftSetStream))dlsym(library, "cufftSetStream");
    const auto forward = (decltype(&cufftExecR2C))dlsym(library, "cufftExecR2C");
    const auto inverse = (decltype(&cufftExecC2R))dlsym(library, "cufftExecC2R");
    cufftHandle there, back;
    if (plan(&there, WINDOW, CUFFT_R2C, 1) || plan(&back, WINDOW, CUFFT_C2R, 1) || set_stream(there, stream) ||
        set_stream(back, stream)) {
        printf("cuFFT: no plan\n");
        return;
    }
    float *past = device<float>(WINDOW), *frame = device<float>(WINDOW), *overlap = device<float>(WINDOW);
    cufftComplex *bins = device<cufftComplex>(WINDOW / 2 + 1);
    measure("analysis and synthesis, cuFFT, without features and gains", [&] {
        before_cufft<<<1, WINDOW, 0, stream>>>(in, past, window, frame);
        forward(there, frame, bins);
        inverse(back, bins, frame);
        after_cufft<<<1, WINDOW, 0, stream>>>(frame, window, overlap, out, asked, done);
    });
}

static void own_nodes(const float *window, const float *in) {
    hop_shape s = {};
    s.window = s.synthesis = WINDOW;
    s.hop = HOP;
    s.n_bins = WINDOW / 2 + 1;
    s.n_linear = 171;
    s.n_bands = 30;
    s.n_positions = s.n_linear + s.n_bands;
    s.scale = 16;
    s.compression = .3f;
    s.rotation_epsilon = s.magnitude_minimum = 1e-6f;
    s.power_minimum = 1e-12f;
    s.overlap = WINDOW - HOP;
    s.n_state = 2 * (WINDOW - HOP);
    s.state = device<float>(s.n_state);
    s.slots = device<hop_slot>(HOP_MAX_SLOTS);
    const unsigned n_left = s.n_bins - s.n_linear;
    std::vector<float> roots(2 * WINDOW), shares(n_left);
    std::vector<unsigned> edges, bands(n_left);
    for (unsigned i = 0; i < WINDOW; i++) {
        roots[2 * i] = (float)cos(2 * M_PI * i / WINDOW);
        roots[2 * i + 1] = (float)-sin(2 * M_PI * i / WINDOW);
    }
    for (unsigned b = 0; b <= s.n_bands; b++)
        edges.push_back(s.n_linear + b * n_left / s.n_bands);
    for (unsigned i = 0; i < n_left; i++) {
        bands[i] = std::min(i * s.n_bands / n_left, s.n_bands - 2);
        shares[i] = .5f;
    }
    const auto copied = [](const auto &from) {
        auto *to = device<typename std::decay_t<decltype(from)>::value_type>(from.size());
        check(cudaMemcpy(to, from.data(), from.size() * sizeof *to, cudaMemcpyHostToDevice), "copy");
        return to;
    };
    hop_slot *slot = mapped<hop_slot>(HOP_MAX_SLOTS);
    slot->strength = 1;
    asked = &slot->ticket;
    float *spectrum = device<float>(2 * s.n_bins), *features = device<float>(3 * s.n_positions);
    float *gain = device<float>(s.n_positions), *rotation = device<float>(2 * s.n_positions);
    float *tail = mapped<float>(WINDOW - HOP), *d_roots = copied(roots);
    const analyse_args there = {s, slot, in, window, d_roots, copied(edges), spectrum, features};
    const synthesise_args back = {
        s,    spectrum, gain, rotation, window, d_roots, copied(bands), copied(shares), mapped<unsigned long long>(HOP),
        tail, done};
    // In turn, like cuFFT's: ahead of its turn `synthesise` reads the ticket and the spectrum before it waits, which in
    // a hop are long there by then.
    measure("analysis and synthesis, the engine's two kernels", [&] {
        analyse<WINDOW / 2><<<1, THREADS, fft_bytes(s), stream>>>(there);
        synthesise<WINDOW / 2><<<1, THREADS, fft_bytes(s), stream>>>(back);
    });
}

int main(int argc, char **argv) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "the GPU");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    done = mapped<unsigned>(1);
    asked = mapped<unsigned>(1);
    printf("%s\n", properties.name);
    std::vector<unsigned> sizes;
    for (int i = 1; i < argc; i++)
        sizes.push_back((unsigned)atoi(argv[i]));
    if (sizes.empty())
        sizes = {1, 22, 100};
    for (unsigned n : sizes)
        for (bool overlap : {false, true}) {
            char name[80];
            snprintf(name, sizeof name, "%u empty kernels, launched %s", n,
                     overlap ? "ahead of their turn" : "in turn");
            measure(name, [&] { empty_nodes(n, overlap); });
        }
    prctl(PR_SET_TIMERSLACK, 1); // as precise as a real-time thread's sleep
    for (unsigned n : {1u, 22u})
        for (way how : {WHOLE, AHEAD, SPLIT})
            for (bool paced : {false, true})
                if (n > 1 || how != SPLIT)
                    measure_way(n, how, paced);
    std::vector<float> sine(WINDOW);
    for (unsigned i = 0; i < WINDOW; i++)
        sine[i] = (float)sin(M_PI * (i + .5) / WINDOW);
    float *window = device<float>(WINDOW), *in = mapped<float>(HOP), *out = mapped<float>(HOP);
    check(cudaMemcpy(window, sine.data(), WINDOW * sizeof(float), cudaMemcpyHostToDevice), "copy");
    cufft_nodes(window, in, out);
    own_nodes(window, in);
    return 0;
}
