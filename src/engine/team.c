#include "engine/team.h"

#include "base/futex.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define END UINT32_MAX /* of n_waiting: the helpers end */

struct helper {
    struct team *team;
    unsigned thread; /* from 1 */
    pthread_t id;
};

struct team {
    team_work *work;
    void *context;
    pid_t process; /* that has the helpers */
    unsigned n_helpers;
    struct helper *helpers;
    _Atomic uint32_t n_waiting; /* jobs not taken yet; helpers sleep while it is 0 */
    _Atomic uint32_t n_undone;  /* jobs not done yet; the caller sleeps until it is 0 */
};

/* Takes a job, the last one first. Its call cannot end before the job is done, so the number stays valid. */
static bool take(struct team *t, unsigned *job) {
    uint32_t n = atomic_load_explicit(&t->n_waiting, memory_order_acquire);
    while (n != 0 && n != END)
        if (atomic_compare_exchange_weak_explicit(&t->n_waiting, &n, n - 1, memory_order_acquire,
                                                  memory_order_acquire)) {
            *job = n - 1;
            return true;
        }
    return false;
}

/* Takes jobs until there is none. */
static void work_off(struct team *t, unsigned thread) {
    unsigned job;
    while (take(t, &job)) {
        t->work(t->context, thread, job);
        if (atomic_fetch_sub_explicit(&t->n_undone, 1, memory_order_acq_rel) == 1 && thread != 0)
            futex_wake(&t->n_undone, 1);
    }
}

static void *help(void *arg) {
    const struct helper *h = arg;
    while (atomic_load_explicit(&h->team->n_waiting, memory_order_acquire) != END) {
        work_off(h->team, h->thread);
        futex_wait(&h->team->n_waiting, 0, UINT64_MAX);
    }
    return NULL;
}

int team_new(struct team **ret, unsigned n_helpers, team_work *work, void *context) {
    struct team *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    *t = (struct team){.work = work, .context = context, .process = getpid()};
    t->helpers = calloc(n_helpers, sizeof *t->helpers);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = t->helpers ? 0 : -ENOMEM;
    for (unsigned i = 0; code == 0 && i < n_helpers; i++) {
        t->helpers[i] = (struct helper){.team = t, .thread = i + 1};
        code = -pthread_create(&t->helpers[i].id, NULL, help, &t->helpers[i]);
        t->n_helpers += code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code) {
        team_free(t);
        return code;
    }
    *ret = t;
    return 0;
}

void team_free(struct team *t) {
    if (!t)
        return;
    atomic_store_explicit(&t->n_waiting, END, memory_order_release);
    if (t->process == getpid()) {
        futex_wake(&t->n_waiting, t->n_helpers);
        for (unsigned i = 0; i < t->n_helpers; i++)
            pthread_join(t->helpers[i].id, NULL);
    }
    free(t->helpers);
    free(t);
}

void team_run(struct team *t, unsigned n_jobs) {
    if (n_jobs == 0)
        return;
    const unsigned n_spare = n_jobs - 1;
    atomic_store_explicit(&t->n_undone, n_jobs, memory_order_relaxed);
    atomic_store_explicit(&t->n_waiting, n_jobs, memory_order_release);
    if (n_spare > 0)
        futex_wake(&t->n_waiting, n_spare < t->n_helpers ? n_spare : t->n_helpers);
    work_off(t, 0);
    for (uint32_t n; (n = atomic_load_explicit(&t->n_undone, memory_order_acquire)) != 0;)
        futex_wait(&t->n_undone, n, UINT64_MAX);
}
