#include "graph/threads.h"

#include "base/rttime.h"

#include <errno.h>
#include <sched.h>

#define RTKIT_MOST 20 /* rtkit's highest priority, unless configured otherwise */

static int start(void *data, pthread_t *ret, void *(*run)(void *), void *arg) {
    struct threads *const t = data;
    struct spa_thread *const thread = spa_thread_utils_create(t->utils, NULL, run, arg);
    if (!thread)
        return errno ? -errno : -EAGAIN;
    *ret = (pthread_t)thread;
    return 0;
}

/* Asks the kernel for the priority: the C library does not know about one from rtkit. 0: none. */
static int loop_priority(struct spa_loop *loop, bool async, uint32_t seq, const void *data, size_t size, void *user) {
    (void)loop, (void)async, (void)seq, (void)data, (void)size;
    struct sched_param param = {0};
    sched_getparam(0, &param);
    *(int *)user = param.sched_priority;
    return 0;
}

/* rtkit may raise the data loop's priority later. */
static int raise_below_loop(void *data, pthread_t thread) {
    struct threads *const t = data;
    int priority = 0;
    pw_data_loop_invoke(t->data_loop, loop_priority, 0, NULL, 0, true, &priority);
    priority = (priority ? priority : RTKIT_MOST) - 1;
    const int r = spa_thread_utils_acquire_rt(t->utils, (struct spa_thread *)thread, priority > 1 ? priority : 1);
    rttime_check();
    return r < 0 ? r : 0;
}

static void join(void *data, pthread_t thread) {
    struct threads *const t = data;
    spa_thread_utils_join(t->utils, (struct spa_thread *)thread, NULL);
}

struct rt threads_rt(struct threads *t) {
    return (struct rt){.data = t, .start = start, .raise = raise_below_loop, .raised = rt_raised, .join = join};
}
