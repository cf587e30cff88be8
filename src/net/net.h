/* net.h - runs a plan on the CPU, one frame at a time, with a set of kernels.
 *
 * A net holds the plan, packed weights and scratch. It serves any number of streams, each with its own net_state, on
 * one thread at a time. net_run, net_state_reset, net_stage and net_step are real-time safe. Functions that return int
 * return 0 or a negative errno. */
#ifndef PRIMEKNET_NET_H
#define PRIMEKNET_NET_H

#include "model/pool.h"
#include "net/plan.h"

struct kernels;
struct net;

/* A stream's state. Zeroing the pool's arrays and `now` resets the stream. */
struct net_state {
    struct pool pool;  /* owns the arrays of `maps` */
    float **maps;      /* [n_maps of the plan]: frames of rings and states; NULL for other maps */
    unsigned long now; /* frames so far */
};

int net_new(struct net **ret, const struct model *model, const struct kernels *kernels);
/* Makes a net for another thread: it shares the plan and weights of `of`, which must outlive it, and has its own
 * scratch. */
int net_share(struct net **ret, const struct net *of);
void net_free(struct net *n); /* n may be NULL */

int net_state_init(const struct net *n, struct net_state *s);
void net_state_reset(struct net_state *s);
void net_state_done(struct net_state *s); /* s may be all zeros */

/* Runs one frame: features [n_positions][3] -> mask [n_positions] in [0, mask_ceiling], and rotation [n_positions][2],
 * the rotated unit vector less (1, 0), not normalised. */
void net_run(struct net *n, struct net_state *s, const float *features, float *mask, float *rotation);

/* For tests: runs one stage of the plan on the map x, and copies the map that it ends with to y. A frame needs all
 * stages in the plan's order; net_step ends it. */
void net_stage(struct net *n, struct net_state *s, enum plan_stage stage, unsigned block, const float *x, float *y);
void net_step(struct net_state *s);

#endif
