/* net_cuda.h - runs a plan on a GPU, many frames of one stream at a time.
 *
 * Maps are [frames][positions][channels] in device memory. A net holds weights, and scratch for its largest number of
 * frames. It serves any number of streams, each with its own state. Compute functions queue work on the net's CUDA
 * stream and return; errors are reported when that stream is synchronised. One thread at a time. */
#ifndef PRIMEKNET_NET_CUDA_H
#define PRIMEKNET_NET_CUDA_H

#include "engine/cuda/arena.h"
#include "net/plan.h"

#include <cuda_runtime_api.h>

struct net_cuda;

/* A stream's state, on the device. A fresh stream is all zeros. */
struct net_cuda_state {
    float **maps; /* [n_maps of the plan]: the earlier frames of rings and states; NULL for other maps */
};

int net_cuda_new(struct net_cuda **ret, const struct model *model, cudaStream_t stream);
void net_cuda_free(struct net_cuda *n); /* n may be NULL */

/* The owner of the memory calls these functions to lay it out. It must then copy the weights from the arena's mirror,
 * and zero scratch and state. */
void net_cuda_weights(struct net_cuda *n, struct arena *a);
void net_cuda_scratch(struct net_cuda *n, struct arena *a, unsigned n_frames);
int net_cuda_state_new(const struct net_cuda *n, struct net_cuda_state *s);
void net_cuda_state_layout(const struct net_cuda *n, struct net_cuda_state *s, struct arena *a);
void net_cuda_state_done(struct net_cuda_state *s); /* s may be all zeros */

/* features [n_frames][n_positions][3] -> mask [n_frames][n_positions] before its sigmoid, and rotation
 * [n_frames][n_positions][2]. Once this has run, it may be captured in a CUDA graph, for a stream and its pointers. */
void net_cuda_run(struct net_cuda *n, const struct net_cuda_state *s, unsigned n_frames, const float *features,
                  float *mask, float *rotation);

/* For tests: runs one stage of the plan on the map x, and copies the map that it ends with to y. A frame needs all
 * stages in the plan's order. */
void net_cuda_stage(struct net_cuda *n, const struct net_cuda_state *s, unsigned n_frames, enum plan_stage stage,
                    unsigned block, const float *x, float *y);

#endif
