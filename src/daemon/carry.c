#include "daemon/carry.h"

/* A network takes up to three times as long as the next lighter one. */
static const float room = .2f;

enum carry carry_second(struct carry_state *c, uint64_t late_samples, float load, bool lighter) {
    const bool bad = late_samples >= CARRY_LATE_SAMPLES;
    if (!c->wait_s)
        c->wait_s = CARRY_WAIT_S;
    c->bad_s = bad ? c->bad_s + 1 : c->bad_s ? c->bad_s - 1 : 0;
    c->good_s = !bad ? c->good_s + 1 : c->good_s > CARRY_BAD_S ? c->good_s - CARRY_BAD_S : 0;
    if (c->bad_s >= CARRY_BAD_S) {
        c->bad_s = c->good_s = 0;
        return CARRY_DOWN;
    }
    if (c->good_s < c->wait_s || (lighter && load > room))
        return CARRY_STAY;
    c->good_s = 0;
    if (!lighter) {
        c->wait_s = CARRY_WAIT_S;
        return CARRY_STAY;
    }
    c->wait_s = 2 * c->wait_s < CARRY_WAIT_MAX_S ? 2 * c->wait_s : CARRY_WAIT_MAX_S;
    return CARRY_UP;
}
