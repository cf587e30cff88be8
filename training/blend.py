"""Blend two averaged weights of one shape, one trained on from the other:
python3 -m training.blend A B PART_OF_B DATA OUT

A may be a model file, where B was trained on from one. DATA is what prepare.py wrote: the mean of two networks' batch
norm statistics is not those of the mean of their weights, so they are measured anew on training's clips (Izmailov et
al., UAI 2018, arXiv 1803.05407; Jordan et al., ICLR 2023, arXiv 2211.08403).
"""
import sys

import torch

from training.data.clips import RATE, Mixer
from training.export import load
from training.network.net import Norm
from training.unfold import calibrate, unfold

BATCHES, CLIPS, SECONDS = 4, 16, 2


def blend(a, b, part):
    """a, b: states of one shape -> a + part * (b - a); tensors that are not float come from b."""
    return {k: v + part * (b[k] - v) if v.is_floating_point() else b[k] for k, v in a.items()}


@torch.no_grad()
def measure(net, batches):
    """Sets every batch norm to the mean statistics of these batches of noisy clips [B,n]."""
    norms = [m for m in net.eval().modules() if isinstance(m, Norm)]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None                               # a plain mean over the batches
        m.train()
    for noisy in batches:
        net(noisy)


def main():
    a, b, part, data, out = sys.argv[1:]
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    mixer = Mixer(data, SECONDS * RATE, device, 0)
    net, ck = load(b, device)
    if a.endswith('.safetensors'):
        before = unfold(a).to(device)
        calibrate(before, mixer.batch(CLIPS)[0])
    else:
        before, _ = load(a, device)
    assert before.cfg == net.cfg, 'not of one shape'
    net.load_state_dict(blend(before.state_dict(), net.state_dict(), float(part)))
    measure(net, (mixer.batch(CLIPS)[0] for _ in range(BATCHES)))
    torch.save(dict(ema=net.state_dict(), cfg=net.cfg, step=ck['step']), out)


if __name__ == '__main__':
    main()
