"""Muon: steps along the nearest orthogonal matrix of a layer's momentum (Jordan et al. 2024), for matrices of linear layers.

Matrices of one shape go through the iteration together: a network of many small layers would spend its time on launches.
"""
import torch

MOMENTUM = .95
DECAY = .01


def orthogonal(m):
    """[k,rows,columns]: five Newton-Schulz steps, after which all singular values lie near 1 (between 0.7 and 1.2)."""
    x = m.bfloat16() if m.is_cuda else m
    tall = m.shape[1] > m.shape[2]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (2.0315 * a @ a - 4.775 * a) @ x
    return (x.mT if tall else x).to(m.dtype)


class Muon(torch.optim.Optimizer):
    """Updates have the root mean square that AdamW's usually have, so that one learning rate serves both."""

    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group['params']:
                if not self.state[p]:
                    self.state[p]['momentum'] = torch.zeros_like(p)
            shapes = {}
            for p in group['params']:
                shapes.setdefault(p.shape, []).append(p)
            for shape, ps in shapes.items():
                grads, momenta = [p.grad for p in ps], [self.state[p]['momentum'] for p in ps]
                torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
                ahead = torch._foreach_lerp(grads, momenta, MOMENTUM)
                step = orthogonal(torch.stack(ahead)) * (.2 * max(shape) ** .5)
                torch._foreach_mul_(ps, 1 - group['lr'] * DECAY)
                torch._foreach_add_(ps, list(step.unbind()), alpha=-group['lr'])


def split(net):
    """-> matrices of linear layers, all other parameters"""
    matrices = [m.weight for m in net.modules() if isinstance(m, torch.nn.Linear) and min(m.weight.shape) >= 8]
    ids = {id(p) for p in matrices}
    return matrices, [p for p in net.parameters() if id(p) not in ids]
