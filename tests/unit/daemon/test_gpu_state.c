/* The state machine of gpu.h: the whole table, and the states that any order of events can reach. */
#include "daemon/gpu.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Each pair of state and event, state by state: the next state (".": the same) and the actions. */
static const struct {
    enum gpu_state state;
    struct gpu_step then[GPU_EVENTS];
} table[] = {
    {GPU_RESTS,
     {[RECORDING] = {GPU_RESTS, LOAD_GPU},
      [IDLE] = {GPU_RESTS, 0},
      [LONG_IDLE] = {GPU_RESTS, RELEASE},
      [SPARED] = {GPU_WAITS, TRY_SOON},
      [NO_ROOM] = {GPU_WAITS, BACK_OFF},
      [ABSENT] = {GPU_MISSING, 0},
      [BROKEN] = {GPU_POISONED, RESTART_LATER},
      [GPU_TAKEN] = {GPU_RUNS, 0},
      [CPU_TAKEN] = {GPU_RESTS, 0},
      [LATE] = {GPU_RESTS, LOAD_LIGHTER},
      [EASY] = {GPU_RESTS, LOAD_HEAVIER},
      [LOST] = {GPU_RESTS, LOAD_ANOTHER},
      [RETRY_DUE] = {GPU_RESTS, 0},
      [SETTINGS_READ] = {GPU_RESTS, 0}}},
    {GPU_RUNS,
     {[RECORDING] = {GPU_RUNS, 0},
      [IDLE] = {GPU_RUNS, LOAD_CPU},
      [LONG_IDLE] = {GPU_RUNS, 0},
      [SPARED] = {GPU_LEAVES, LOAD_CPU | TRY_SOON},
      [NO_ROOM] = {GPU_RUNS, 0},
      [ABSENT] = {GPU_RUNS, 0},
      [BROKEN] = {GPU_RUNS, 0},
      [GPU_TAKEN] = {GPU_RUNS, 0},
      [CPU_TAKEN] = {GPU_RESTS, 0},
      [LATE] = {GPU_LEAVES, LOAD_CPU | BACK_OFF},
      [EASY] = {GPU_RUNS, 0},
      [LOST] = {GPU_POISONED, LOAD_ANOTHER | RESTART},
      [RETRY_DUE] = {GPU_RUNS, 0},
      [SETTINGS_READ] = {GPU_RUNS, 0}}},
    {GPU_LEAVES,
     {[RECORDING] = {GPU_LEAVES, 0},
      [IDLE] = {GPU_LEAVES, LOAD_CPU},
      [LONG_IDLE] = {GPU_LEAVES, 0},
      [SPARED] = {GPU_LEAVES, LOAD_CPU | TRY_SOON},
      [NO_ROOM] = {GPU_LEAVES, 0},
      [ABSENT] = {GPU_LEAVES, 0},
      [BROKEN] = {GPU_LEAVES, 0},
      [GPU_TAKEN] = {GPU_RUNS, 0},
      [CPU_TAKEN] = {GPU_WAITS, 0},
      [LATE] = {GPU_LEAVES, LOAD_CPU | BACK_OFF},
      [EASY] = {GPU_LEAVES, 0},
      [LOST] = {GPU_POISONED, LOAD_ANOTHER | RESTART},
      [RETRY_DUE] = {GPU_LEAVES, 0},
      [SETTINGS_READ] = {GPU_RUNS, 0}}},
    {GPU_WAITS,
     {[RECORDING] = {GPU_WAITS, 0},
      [IDLE] = {GPU_WAITS, 0},
      [LONG_IDLE] = {GPU_WAITS, RELEASE},
      [SPARED] = {GPU_WAITS, TRY_SOON},
      [NO_ROOM] = {GPU_WAITS, BACK_OFF},
      [ABSENT] = {GPU_MISSING, 0},
      [BROKEN] = {GPU_POISONED, RESTART_LATER},
      [GPU_TAKEN] = {GPU_RUNS, 0},
      [CPU_TAKEN] = {GPU_WAITS, 0},
      [LATE] = {GPU_WAITS, LOAD_LIGHTER},
      [EASY] = {GPU_WAITS, LOAD_HEAVIER},
      [LOST] = {GPU_WAITS, LOAD_ANOTHER},
      [RETRY_DUE] = {GPU_RESTS, 0},
      [SETTINGS_READ] = {GPU_RESTS, 0}}},
    {GPU_MISSING,
     {[RECORDING] = {GPU_MISSING, 0},
      [IDLE] = {GPU_MISSING, 0},
      [LONG_IDLE] = {GPU_MISSING, RELEASE},
      [SPARED] = {GPU_WAITS, TRY_SOON},
      [NO_ROOM] = {GPU_WAITS, BACK_OFF},
      [ABSENT] = {GPU_MISSING, 0},
      [BROKEN] = {GPU_POISONED, RESTART_LATER},
      [GPU_TAKEN] = {GPU_RUNS, 0},
      [CPU_TAKEN] = {GPU_MISSING, 0},
      [LATE] = {GPU_MISSING, LOAD_LIGHTER},
      [EASY] = {GPU_MISSING, LOAD_HEAVIER},
      [LOST] = {GPU_MISSING, LOAD_ANOTHER},
      [RETRY_DUE] = {GPU_MISSING, 0},
      [SETTINGS_READ] = {GPU_RESTS, 0}}},
    {GPU_POISONED,
     {[RECORDING] = {GPU_POISONED, 0},
      [IDLE] = {GPU_POISONED, 0},
      [LONG_IDLE] = {GPU_POISONED, RELEASE},
      [SPARED] = {GPU_POISONED, 0},
      [NO_ROOM] = {GPU_POISONED, 0},
      [ABSENT] = {GPU_POISONED, 0},
      [BROKEN] = {GPU_POISONED, 0},
      [GPU_TAKEN] = {GPU_POISONED, 0},
      [CPU_TAKEN] = {GPU_POISONED, 0},
      [LATE] = {GPU_POISONED, LOAD_LIGHTER},
      [EASY] = {GPU_POISONED, LOAD_HEAVIER},
      [LOST] = {GPU_POISONED, LOAD_ANOTHER},
      [RETRY_DUE] = {GPU_POISONED, 0},
      [SETTINGS_READ] = {GPU_POISONED, 0}}},
};

START_TEST(whole_table) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int event = 0; event < GPU_EVENTS; event++) {
            const struct gpu_step is = gpu_next(table[i].state, event), want = table[i].then[event];
            ck_assert_msg(is.state == want.state && is.actions == want.actions, "state %d, event %d: %d, %x",
                          table[i].state, event, is.state, is.actions);
        }
}
END_TEST

/* Returns why no order of events may lead to this step; NULL: it may. */
static const char *fault(enum gpu_state state, enum gpu_event event, struct gpu_step step) {
    const unsigned loads = step.actions & (LOAD_GPU | LOAD_CPU | LOAD_ANOTHER | LOAD_LIGHTER | LOAD_HEAVIER);
    const bool pause = step.actions & (TRY_SOON | BACK_OFF);
    return loads & (loads - 1)                           ? "two engines are loaded at once"
           : loads & LOAD_GPU && !(state & GPU_MAY_OPEN) ? "the GPU in use, or a poisoned one, is opened"
           : loads & (LOAD_LIGHTER | LOAD_HEAVIER) && !(state & CPU_IN_USE) ? "the GPU's model is exchanged"
           : step.actions & RELEASE && !(state & CPU_IN_USE)                ? "the GPU in use is released"
           : state == GPU_POISONED && step.state != GPU_POISONED            ? "a poisoned process is healed"
           : event == LOST && !(loads & LOAD_ANOTHER)                       ? "there is no sound again"
           : event != GPU_TAKEN && step.state & GPU_IN_USE && !(state & GPU_IN_USE)
               ? "an engine that is not there is used"
           : step.state == GPU_LEAVES && state != GPU_LEAVES && !pause              ? "it leaves and never comes back"
           : step.state == GPU_WAITS && state & ~(GPU_WAITS | GPU_LEAVES) && !pause ? "it waits for nothing"
                                                                                    : NULL;
}

START_TEST(any_order) {
    unsigned seed = seed_of_run(20261124);
    enum gpu_state state = GPU_RESTS;
    for (int i = 0; i < 100000; i++) {
        const enum gpu_event event = (enum gpu_event)((unsigned)rand_r(&seed) % GPU_EVENTS);
        const struct gpu_step step = gpu_next(state, event);
        const char *why = fault(state, event, step);
        if (why || (step.state & (step.state - 1)))
            ck_abort_msg("state %d, event %d: %s", state, event, why ? why : "two states at once");
        state = step.state == GPU_POISONED && i % 10 == 0 ? GPU_RESTS : step.state; /* another process */
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu_state");
    TCase *t = tcase_create("gpu_state");
    tcase_add_test(t, whole_table);
    tcase_add_test(t, any_order);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
