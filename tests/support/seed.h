/* seed.h - the seed of a test's random numbers: SEED from the environment, or a default. It is printed, so that a
 * failure can be reproduced. */
#ifndef PRIMEKNET_SEED_H
#define PRIMEKNET_SEED_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint32_t seed_of_run(uint32_t fallback) {
    const char *given = getenv("SEED");
    const uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : fallback;
    printf("SEED=%" PRIu32 "\n", seed);
    return seed;
}

#endif
