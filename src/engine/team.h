/* team.h - threads that share the jobs of a call: the caller and helpers, which sleep between calls.
 *
 * Whoever is free takes the next job. The caller works too, so a call ends even if no helper gets processor time, or if
 * there is none, as in the child of a fork.
 *
 * Threads: new and free on any thread; run on one thread at a time. run allocates nothing, but it makes system calls
 * and waits for helpers. */
#ifndef PRIMEKNET_TEAM_H
#define PRIMEKNET_TEAM_H

struct team;

/* One of n_jobs jobs, on thread 0, the caller's, or a helper, 1 to n_helpers. */
typedef void team_work(void *context, unsigned thread, unsigned job);

/* The helpers inherit the calling thread's scheduling policy and priority, and block all signals. Returns 0 or a
 * negative errno. */
int team_new(struct team **ret, unsigned n_helpers, team_work *work, void *context);
void team_free(struct team *t); /* t may be NULL */

/* Runs the jobs 0 to n_jobs - 1, each once, in any order. Returns when all are done. */
void team_run(struct team *t, unsigned n_jobs);

#endif
