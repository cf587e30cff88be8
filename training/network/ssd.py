"""State-space duality: h[t] = exp(dt A) h[t-1] + dt x B',  y[t] = h[t] C  (Dao & Gu, arXiv 2405.21060), for each head.

x [N,T,H,P], dt [N,T,H] (float32), A [H], B, C [N,T,S] -> y [N,T,H,P].
"""
import torch
import torch.nn.functional as F

CHUNK = 32


def ssd_reference(x, dt, A, B, C):
    """The definition, one step at a time."""
    h, ys = 0, []
    for t in range(x.shape[1]):
        h = torch.exp(dt[:, t] * A)[..., None, None] * h + (dt[:, t, :, None] * x[:, t])[..., None] * B[:, t, None,
                                                                                                        None]
        ys.append((h * C[:, t, None, None]).sum(-1))
    return torch.stack(ys, 1)


def ssd(x, dt, A, B, C):
    """The same in chunks: within one as a masked matrix of C[i].B[j], what is left at its end carried into the next."""
    T = x.shape[1]
    chunks = lambda v: F.pad(v, (0, 0) * (v.dim() - 2) + (0, -T % CHUNK)).unflatten(1, (-1, CHUNK))
    x, B, C = chunks(x * dt[..., None].to(x.dtype)), chunks(B), chunks(C)                # [N,K,Q,...]
    a = chunks(dt * A).cumsum(2).movedim(-1, 2)                                          # [N,K,H,Q]
    past = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=x.device).tril()
    fall = torch.exp((a[..., :, None] - a[..., None, :]).masked_fill(~past, -torch.inf)) # [N,K,H,Q,Q]: from j to i
    y = torch.einsum('nkhij,nkjhp->nkihp', fall.to(x.dtype) * (C @ B.mT)[:, :, None], x)
    left = torch.einsum('nkjhp,nkhj,nkjs->nkhps', x, torch.exp(a[..., -1:] - a).to(x.dtype), B)
    whole, h, before = torch.exp(a[..., -1])[..., None, None], torch.zeros_like(left[:, 0], dtype=dt.dtype), []
    for k in range(left.shape[1]):
        before.append(h)
        h = whole[:, k] * h + left[:, k]
    y = y + torch.einsum('nkhps,nkis,nkhi->nkihp', torch.stack(before, 1).to(x.dtype), C, torch.exp(a).to(x.dtype))
    return y.flatten(1, 2)[:, :T]
