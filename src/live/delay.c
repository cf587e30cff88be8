#include "config.h"

#include "live/delay.h"

#include "base/gcd.h"
#include "engine/engine.h"
#include "live/pump.h"

#define WAIT_SHARE_AGAIN 0.3         /* of the block's duration, once hops have taken more than ENGINE_SHARE */
#define BARRED_MIN (2u * PUMP_RATE)  /* samples; doubles each time waiting has lasted less than ... */
#define LASTING (30u * PUMP_RATE)    /* ... this many samples ... */
#define BARRED_MAX (32u * PUMP_RATE) /* ... up to this */

unsigned delay_needed(const struct delay_stream *streams, unsigned n, unsigned slack, unsigned block_max, bool waits) {
    unsigned delay = 0, behind = block_max;
    for (unsigned i = 0; i < n; i++) {
        const unsigned needed = streams[i].engine_delay + streams[i].hop - streams[i].block_gcd;
        delay = needed > delay ? needed : delay;
        behind = streams[i].hop > behind ? streams[i].hop : behind;
    }
    return delay + slack + (waits ? 0 : behind);
}

bool blocks_add(struct blocks *b, unsigned n, uint64_t end) {
    const bool changed = n > b->quantum + DELAY_SLACK || n + DELAY_SLACK < b->quantum;
    if (changed)
        *b = (struct blocks){.quantum = n, .since = end};
    b->gcd = gcd(b->gcd, n);
    b->max = n > b->max ? n : b->max;
    return changed;
}

bool wait_now(const struct wait *w) {
    return w->state == WAITS || w->state == WAITS_AGAIN;
}

bool wait_fits(const struct wait *w, bool realtime, double cost_us, unsigned n, uint64_t end) {
    const bool again = w->state == BARRED || w->state == WAITS_AGAIN;
    if (!realtime || (again && end < w->until))
        return false;
    return cost_us < (again ? WAIT_SHARE_AGAIN : ENGINE_SHARE) * n * 1e6 / PUMP_RATE;
}

void wait_begin(struct wait *w) {
    w->state = w->state == BARRED || w->state == WAITS_AGAIN ? WAITS_AGAIN : WAITS;
}

void wait_end(struct wait *w, bool barred, uint64_t end) {
    if (!barred) {
        w->state = w->state == WAITS_AGAIN ? BARRED : AHEAD;
        return;
    }
    const bool lasted = w->state != WAITS_AGAIN || end >= w->until + LASTING;
    w->barred = lasted ? BARRED_MIN : 2 * w->barred < BARRED_MAX ? 2 * w->barred : BARRED_MAX;
    w->until = end + w->barred;
    w->state = BARRED;
}

void wait_renew(struct wait *w) {
    *w = (struct wait){.state = wait_now(w) ? WAITS : AHEAD};
}
