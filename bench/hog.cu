// hog compute|memory SECONDS: another program on the GPU, which computes without a pause or takes all of its memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

static __global__ void spin(float *sum, int n) {
    float x = threadIdx.x;
    for (int i = 0; i < n; i++)
        x = x * 1.0000001f + 1e-7f;
    if (x == 0)
        *sum = x;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("Usage: hog compute|memory SECONDS\n", stderr);
        return 2;
    }
    const time_t end = time(nullptr) + atoi(argv[2]);
    float *sum;
    if (cudaMalloc(&sum, sizeof *sum)) {
        fputs("hog: no GPU\n", stderr);
        return 1;
    }
    if (!strcmp(argv[1], "memory")) {
        void *p;
        for (size_t size = size_t(1) << 36; size >= size_t(1) << 20; size >>= 1)
            while (!cudaMalloc(&p, size))
                ;
        puts("hog: has the memory");
        fflush(stdout);
    }
    while (time(nullptr) < end) {
        if (!strcmp(argv[1], "memory")) {
            timespec pause = {0, 100000000};
            nanosleep(&pause, nullptr);
        } else {
            for (int i = 0; i < 8; i++)
                spin<<<132 * 16, 1024>>>(sum, 1 << 20);
            cudaDeviceSynchronize();
        }
    }
    return 0;
}
