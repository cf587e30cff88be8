"""Selective scan: h[t] = exp(dt A) h[t-1] + dt B u,  y[t] = C.h[t] + D u  (arXiv 2312.00752, eq. 2, zero-order hold on A).

u, dt [N,T,D]; A [D,S]; B, C [N,T,S]; Dv [D] -> y [N,T,D]. The kernels of scan_triton run on CUDA tensors only.
"""
import torch

if torch.cuda.is_available():
    from scan_triton import scan_op


def scan_reference(u, dt, A, B, C, Dv):
    """The definition, one step at a time."""
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(dt[:, t, :, None] * A) * h + (dt[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + Dv * u[:, t])
    return torch.stack(ys, 1)


def scan(u, dt, A, B, C, Dv):
    if not u.is_cuda:
        return scan_reference(u, dt, A, B, C, Dv)
    return scan_op(u.contiguous(), dt.contiguous(), A, B.contiguous(), C.contiguous(), Dv)[0]
