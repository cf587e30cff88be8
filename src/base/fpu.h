/* fpu.h - flushes denormals to zero while the network runs. Otherwise states that decay in silence become denormal,
 * which slows the processor down a hundredfold. Affects only the calling thread; real-time safe. */
#ifndef PRIMEKNET_FPU_H
#define PRIMEKNET_FPU_H

#ifdef __SSE__
#include <xmmintrin.h>

static inline unsigned fpu_flush_denormals(void) {
    unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040); /* flush to zero, denormals are zero */
    return saved;
}

static inline void fpu_restore(unsigned saved) {
    _mm_setcsr(saved);
}
#elif defined __aarch64__
static inline unsigned fpu_flush_denormals(void) {
    unsigned long saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(saved | 1ul << 24)); /* flush to zero */
    return (unsigned)saved;
}

static inline void fpu_restore(unsigned saved) {
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)saved));
}
#else
static inline unsigned fpu_flush_denormals(void) {
    return 0;
}

static inline void fpu_restore(unsigned saved) {
    (void)saved;
}
#endif

#endif
