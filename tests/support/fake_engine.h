/* fake_engine.h - the functions of engine.h and rt.h that tests of the pump share. Include it after the test's `struct
 * engine`, which needs the members hop, delay, gain, fade, together and past. */
#ifndef PRIMEKNET_TESTS_FAKE_ENGINE_H
#define PRIMEKNET_TESTS_FAKE_ENGINE_H

#include "engine/engine.h"
#include "live/rt.h"

#include <errno.h>

unsigned engine_hop(const struct engine *e) {
    return e->hop;
}

unsigned engine_delay(const struct engine *e) {
    return e->delay;
}

bool engine_together(const struct engine *e) {
    return e->together;
}

const float *engine_fade(const struct engine *e) {
    return e->fade;
}

void engine_tail(const struct engine *e, unsigned stream, float *tail) {
    for (unsigned i = 0; i < e->delay; i++)
        tail[i] = e->gain * e->fade[i] * e->past[stream][i];
}

static int raise_granted(void *data, pthread_t thread) {
    (void)data, (void)thread;
    return 0;
}

static int raise_refused(void *data, pthread_t thread) {
    (void)data, (void)thread;
    return -EPERM;
}

static bool raised_true(void *data, pid_t tid) {
    (void)data, (void)tid;
    return true;
}

static bool raised_false(void *data, pid_t tid) {
    (void)data, (void)tid;
    return false;
}

#endif
