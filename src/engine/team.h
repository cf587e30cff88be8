/* team.h - a thread pool. The caller and its helper threads share the jobs of a call; helpers sleep between calls.
 *
 * A free thread takes the next job. Because the caller works too, a call completes even if no helper gets processor
 * time, or if none exists, as in a forked child.
 *
 * Threads: call team_new and team_free on any thread, team_run on one thread at a time. team_run does not allocate, but
 * makes system calls and waits for helpers. */
#ifndef PRIMEKNET_TEAM_H
#define PRIMEKNET_TEAM_H

struct team;

/* Runs one job. thread: 0 for the caller, 1 to n_helpers for a helper. */
typedef void team_work(void *context, unsigned thread, unsigned job);

/* The helpers inherit the calling thread's scheduling policy and priority, and block all signals. Returns 0 or a
 * negative errno. */
int team_new(struct team **ret, unsigned n_helpers, team_work *work, void *context);
void team_free(struct team *t); /* t may be NULL */

/* Runs the jobs 0 to n_jobs - 1, each once, in any order, and returns when all are done. */
void team_run(struct team *t, unsigned n_jobs);

#endif
