/* carry.h - load control: decides once a second whether this machine is fast enough for the current model, when a
 * lighter one should take over, and when a heavier one is worth another try. Independent of clocks and models. */
#ifndef PRIMEKNET_CARRY_H
#define PRIMEKNET_CARRY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CARRY_LATE_SAMPLES = 5 * 256, /* samples in late hops that make a second bad: 27 ms of dry sound */
    CARRY_BAD_S = 10,             /* bad seconds minus good ones that make the model too heavy */
    CARRY_WAIT_S = 30,       /* good seconds, minus ten per bad one, before a heavier model is tried; doubles after each
                              * try ... */
    CARRY_WAIT_MAX_S = 3600, /* ... up to this, and is reset once the requested model has had as many */
};

enum carry { CARRY_STAY, CARRY_DOWN, CARRY_UP };

/* {0} is the initial state. */
struct carry_state {
    unsigned bad_s, good_s, wait_s;
};

/* Judges one second. late_samples: the samples in its late hops. load: the share of a hop's duration that computing it
 * takes; above a fifth, no heavier model is tried. lighter: the current model is lighter than the requested one. */
enum carry carry_second(struct carry_state *c, uint64_t late_samples, float load, bool lighter);

#endif
