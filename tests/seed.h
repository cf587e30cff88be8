/* seed.h - where a test's random numbers begin: at SEED of the environment, else always at the same place; printed, so that what
 * failed can be run again. */
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
