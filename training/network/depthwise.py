"""Depthwise convolution over (time, frequency) on channels-last tensors [B,T,F,C]."""
import torch

if torch.cuda.is_available():
    from training.network.depthwise_triton import depthwise_op


def depthwise_reference(x, w, kt, kf, dt=1):
    """The definition, as a sum of shifted copies."""
    T, F = x.shape[1:3]
    p = torch.nn.functional.pad(x, (0, 0, kf // 2, kf // 2, (kt - 1) * dt, 0))
    return sum(p[:, i * dt:i * dt + T, j:j + F] * w[i * kf + j] for i in range(kt) for j in range(kf))


def depthwise(maps, w, kt, kf, dt=1):
    """n maps [B,T,F,C], w [n, kt*kf, C] -> [B,T,F,n*C], side by side: kt taps in the past at spacing dt, kf centred in
    frequency.

    On CUDA C must be a power of two, kt 1 or 3 and kf 3.
    """
    if not w.is_cuda:
        return torch.cat([depthwise_reference(x, k, kt, kf, dt) for x, k in zip(maps, w)], -1)
    return depthwise_op([x.contiguous() for x in maps], w, kt, dt)
