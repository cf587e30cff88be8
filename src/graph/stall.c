#include "graph/stall.h"

bool stall_watch(struct stall *s, bool watched, unsigned n_blocks, unsigned n_cycles) {
    if (watched == s->watched)
        return false;
    const bool passed = s->passes;
    *s = (struct stall){.watched = watched, .n = s->n, .n_blocks = n_blocks, .n_cycles = n_cycles, .tried = s->tried};
    return passed;
}

void stall_forget(struct stall *s) {
    s->tried = 0;
}

/* Returns the ticks without a block, while the graph runs, before the next action. */
static unsigned patience(const struct stall *s) {
    unsigned ms = STALL_FIRST_MS;
    for (unsigned i = 0; i < s->tried && ms < STALL_MAX_MS; i++)
        ms *= 2;
    return (ms < STALL_MAX_MS ? ms : STALL_MAX_MS) / STALL_TICK_MS;
}

enum stall_action stall_tick(struct stall *s, unsigned n_blocks, unsigned n_cycles) {
    const bool ran = n_cycles != s->n_cycles;
    s->n_cycles = n_cycles;
    if (n_blocks != s->n_blocks) {
        s->n_blocks = n_blocks;
        s->passes = true;
        s->missing = s->waited = s->tried = 0;
        return STALL_WAIT;
    }
    s->missing++;
    s->waited += ran ? STALL_STANDING : 1;
    s->passes &= s->missing < STALL_FIRST_MS / STALL_TICK_MS;
    if (s->waited < STALL_STANDING * patience(s))
        return STALL_WAIT;
    s->waited = 0;
    s->n++;
    return s->tried++ == 0 ? STALL_FLUSH : STALL_REOPEN;
}
