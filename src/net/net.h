/* net.h - the network on the CPU: causal PrimeKnet-Mamba, one frame at a time (PrimeK-Net: Lin et al., arXiv
 * 2502.19906; Mamba: Gu & Dao, arXiv 2312.00752). docs/model-format.md defines every layer.
 *
 * Maps are [positions][channels], with n_positions rows at full resolution and n_half rows after the stride-2
 * convolution. A net holds packed weights and scratch. It serves any number of streams, each with its own net_state, on
 * one thread at a time. All functions except net_new, net_share, net_free, net_state_init and net_state_done are
 * real-time safe. Functions that return int return 0 or a negative errno. */
#ifndef PRIMEKNET_NET_H
#define PRIMEKNET_NET_H

#include "model/model.h"
#include "model/pool.h"
#include "net/mixer.h"

struct kernels;
struct net;

/* A stream's state. `pool` owns all arrays; zeroing it and `now` resets the stream. */
struct net_state {
    struct pool pool;
    unsigned long now; /* frames so far */
    float *encoder[MODEL_MAX_DEPTH], *mask[MODEL_MAX_DEPTH], *phase[MODEL_MAX_DEPTH]; /* rings of the dense blocks'
                                                                                       * maps */
    struct mixer_state mixers[MODEL_MAX_BLOCKS][MODEL_MAX_LAYERS]; /* of the time layers */
};

int net_new(struct net **ret, const struct model *model, const struct kernels *kernels);
/* Makes a net for another thread: it shares the weights of `of`, which must outlive it, and has its own scratch. */
int net_share(struct net **ret, const struct net *of);
void net_free(struct net *n); /* n may be NULL */

int net_state_init(const struct net *n, struct net_state *s);
void net_state_reset(struct net_state *s);
void net_state_done(struct net_state *s); /* s may be all zeros */

/* Runs one frame: features [n_positions][3] -> mask [n_positions] in [0, mask_ceiling], and rotation [n_positions][2],
 * the rotated unit vector less (1, 0), not normalised. */
void net_run(struct net *n, struct net_state *s, const float *features, float *mask, float *rotation);

/* The steps of net_run, in its order, for tests. net_step ends the frame. */
void net_embed(struct net *n, const float *features, float *y);
void net_encode(struct net *n, struct net_state *s, const float *x, float *y);
void net_down(struct net *n, const float *x, float *y);
void net_time_stage(struct net *n, struct net_state *s, unsigned block, const float *x, float *y);
void net_freq_stage(struct net *n, unsigned block, const float *x, float *y);
void net_mask(struct net *n, struct net_state *s, const float *x, float *mask);
void net_phase(struct net *n, struct net_state *s, const float *x, float *rotation);
void net_step(struct net_state *s);

#endif
