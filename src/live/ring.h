/* ring.h - the latest samples of a signal, indexed by position.
 *
 * Threads: the owner of the samples defines them. Real-time safe. */
#ifndef PRIMEKNET_RING_H
#define PRIMEKNET_RING_H

#include <stdint.h>
#include <string.h>

#define RING 65536u           /* samples kept: a power of two */
#define RING_START (1u << 20) /* the first position, so that reads never start before 0 */
#define BLOCK_MAX 16384u      /* samples; longer blocks are cut (8192 at a 44.1 kHz graph are 8917 here) */

static inline void ring_put(float *ring, uint64_t position, const float *from, unsigned n) {
    const unsigned at = (unsigned)(position % RING), first = n < RING - at ? n : RING - at;
    memcpy(ring + at, from, first * sizeof *ring);
    memcpy(ring, from + first, (n - first) * sizeof *ring);
}

static inline void ring_get(const float *ring, uint64_t position, float *to, unsigned n) {
    const unsigned at = (unsigned)(position % RING), first = n < RING - at ? n : RING - at;
    memcpy(to, ring + at, first * sizeof *ring);
    memcpy(to + first, ring, (n - first) * sizeof *ring);
}

#endif
