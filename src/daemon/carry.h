/* carry.h - whether the machine carries the model that runs, judged once a second: when a lighter one should take
 * over, and when the heavier one is worth another try. Knows neither clock nor model. */
#ifndef PRIMEKNET_CARRY_H
#define PRIMEKNET_CARRY_H

#include <stdbool.h>

enum {
    CARRY_LATE_HOPS = 5,     /* late hops that make a second a bad one; dry sound is heard then */
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

/* n_late: hops of this second that were late. load: the share of a hop's time that a hop takes; where that is more
 * than a fifth, nothing heavier is tried. lighter: what runs is lighter than what is asked for. */
enum carry carry_second(struct carry_state *c, unsigned n_late, float load, bool lighter);

#endif
