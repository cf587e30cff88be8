#include "daemon/gpu.h"

#include <stddef.h>

static const struct row {
    unsigned states;
    enum gpu_event event;
    unsigned next, actions;
} rows[] = {
#define ROW(states, event, next, actions) {states, event, next, actions},
    GPU_TABLE(ROW)
#undef ROW
};

struct gpu_step gpu_next(enum gpu_state state, enum gpu_event event) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((rows[i].states & state) && rows[i].event == event)
            return (struct gpu_step){rows[i].next ? rows[i].next : state, rows[i].actions};
    return (struct gpu_step){state, 0};
}
