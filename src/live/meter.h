/* meter.h - measures a signal's mean power over about 0.3 s.
 *
 * Threads: one thread calls meter_add and may set `power` to 0 to restart; any thread may read `rms`. Real-time
 * safe. */
#ifndef PRIMEKNET_METER_H
#define PRIMEKNET_METER_H

#include "live/pump.h"

#include <math.h>
#include <stdatomic.h>

#define METER_TIME (PUMP_RATE * 3 / 10) /* samples */

struct meter {
    double power;
    _Atomic float rms; /* linear, full scale 1.0 */
};

/* Adds n samples whose squares sum to `power`. */
static inline void meter_add(struct meter *m, float power, unsigned n) {
    if (isfinite(power))
        m->power += (power / n - m->power) * n / (n + METER_TIME);
    atomic_store_explicit(&m->rms, sqrtf((float)m->power), memory_order_relaxed);
}

#endif
