#include "config.h"

#include "base/rttime.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>

#define LEAST_LIMIT_MS 100 /* a hop may take long while the machine is busy */

int rttime_short_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_RTTIME, &limit) < 0)
        return -1;
    const rlim_t least = limit.rlim_cur < limit.rlim_max ? limit.rlim_cur : limit.rlim_max;
    return least / 1000 < LEAST_LIMIT_MS ? (int)(least / 1000) : -1;
}

/* Asks the kernel: the C library does not know about a priority from rtkit. */
static void drop_priority(pid_t tid) {
    const int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
    if (policy == SCHED_FIFO || policy == SCHED_RR)
        sched_setscheduler(tid, SCHED_OTHER | SCHED_RESET_ON_FORK, &(struct sched_param){0});
}

void rttime_check(void) {
    DIR *const threads = rttime_short_limit() < 0 ? NULL : opendir("/proc/self/task");
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (atoi(entry->d_name) > 0)
            drop_priority(atoi(entry->d_name));
    if (threads)
        closedir(threads);
}
