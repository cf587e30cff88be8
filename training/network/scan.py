"""Selective scan: h[t] = exp(dt A) h[t-1] + dt B u,  y[t] = C.h[t] + D u  (arXiv 2312.00752, eq. 2, zero-order hold on
A)."""
import torch


def scan(u, dt, A, B, C, Dv):
    """u, dt [N,T,D]; A [D,S]; B, C [N,T,S]; Dv [D] -> y [N,T,D], one step at a time. On a GPU it is a part of
    mamba_triton."""
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(dt[:, t, :, None] * A) * h + (dt[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + Dv * u[:, t])
    return torch.stack(ys, 1)
