/* clock.h - the monotonic clock, in nanoseconds and milliseconds. Real-time safe: the vDSO answers without a system
 * call. */
#ifndef PRIMEKNET_CLOCK_H
#define PRIMEKNET_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int64_t now_ms(void) {
    return (int64_t)(now_ns() / 1000000);
}

static inline int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
