/* carry.h - whether the machine carries the model that runs, judged once a second: when a lighter one should take
 * over, and when the heavier one is worth another try. Knows neither clock nor model. */
#ifndef PRIMEKNET_CARRY_H
#define PRIMEKNET_CARRY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CARRY_LATE_SAMPLES = 5 * 256, /* in late hops, that make a second a bad one; dry sound is heard for 27 ms then */
    CARRY_BAD_S = 10,        /* bad seconds, less good ones, after which the model is too heavy */
    CARRY_WAIT_S = 30,       /* good seconds, less ten for each bad one, before a heavier one is tried; doubled after
                              * each try ... */
    CARRY_WAIT_MAX_S = 3600, /* ... up to this, and back to the first once a model has held for so long */
};

enum carry { CARRY_STAY, CARRY_DOWN, CARRY_UP };

/* {0} is a fresh one. */
struct carry_state {
    unsigned bad_s, good_s, wait_s;
};

/* late_samples: in this second's late hops. load: the share of a hop's time that a hop takes; where that is more
 * than a fifth, nothing heavier is tried. lighter: what runs is lighter than what is asked for. */
enum carry carry_second(struct carry_state *c, uint64_t late_samples, float load, bool lighter);

#endif
