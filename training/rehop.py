"""A model file's network for twice the hop: python3 rehop.py MODEL.safetensors OUT.safetensors

One frame then stands for two. The scans decay twice as far in a step and take in twice as much; taps in time, now twice
as far apart, are shared out between their neighbours. Training goes on from it: `train.py --weights OUT`, with the new
hop in the configuration.
"""
import argparse
import math
import pathlib

import torch

from export import export
from network import GEOMETRY, DenseBlock, Mamba, Net
from unfold import unfold


def half_as_far(taps):
    """Taps [n, ...] in time, the last one the present frame's, for frames twice as far apart."""
    out = torch.zeros_like(taps)
    for i, w in enumerate(taps.flip(0)):                # i frames ago: i / 2 of the new ones
        out[i // 2] += w if i % 2 == 0 else w / 2
        if i % 2:
            out[i // 2 + 1] += w / 2
    return out.flip(0)


@torch.no_grad()
def rehop(old):
    """The network `old` with twice its hop, in evaluation mode."""
    new = Net(**old.cfg | dict(hop=2 * old.hop)).eval()
    new.load_state_dict(old.state_dict() | {k: v for k, v in new.state_dict().items() if k in GEOMETRY})
    for m in new.modules():
        if isinstance(m, Mamba):
            m.A_log += math.log(2)
            m.xp.weight[m.dt_rank:m.dt_rank + m.state] *= 2
            m.conv_w.copy_(half_as_far(m.conv_w.t()).t())
        elif isinstance(m, DenseBlock):
            for w in m.w:
                w.copy_(half_as_far(w.view(3, 3, -1)).view_as(w))
    return new


def main():
    ap = argparse.ArgumentParser(description="A model file's network for twice the hop.")
    ap.add_argument('model')
    ap.add_argument('out')
    a = ap.parse_args()
    export(rehop(unfold(a.model)), a.out, pathlib.Path(a.out).stem, training='for twice the hop, untrained')


if __name__ == '__main__':
    main()
