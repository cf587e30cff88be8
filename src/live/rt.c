#include "config.h"

#include "live/rt.h"

#include <sched.h>

/* Above every ordinary thread, below whatever audio servers use. */
#define PRIORITY 10

static int posix_start(void *data, pthread_t *ret, void *(*run)(void *), void *arg) {
    (void)data;
    return -pthread_create(ret, NULL, run, arg);
}

static int posix_raise(void *data, pthread_t thread) {
    (void)data;
    const struct sched_param param = {.sched_priority = PRIORITY};
    return -pthread_setschedparam(thread, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
}

static void posix_join(void *data, pthread_t thread) {
    (void)data;
    pthread_join(thread, NULL);
}

bool rt_raised(void *data, pid_t tid) {
    (void)data;
    const int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
    return policy == SCHED_FIFO || policy == SCHED_RR;
}

const struct rt rt_posix = {.start = posix_start, .raise = posix_raise, .raised = rt_raised, .join = posix_join};
