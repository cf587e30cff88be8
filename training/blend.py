"""Blend two averaged weights of one shape, one trained on from the other: python3 blend.py A B PART_OF_B OUT"""
import sys

import torch

from network import Net


def blend(a, b, part):
    return {k: v + part * (b[k] - v) if v.is_floating_point() else b[k] for k, v in a.items()}


def main():
    a, b, part, out = sys.argv[1:]
    a, b = (torch.load(f, map_location='cpu') for f in (a, b))
    # Older checkpoints lack settings that came later; a network has the values that were meant.
    assert Net(**a['cfg']).cfg == Net(**b['cfg']).cfg, 'not of one shape'
    torch.save(dict(ema=blend(a['ema'], b['ema'], float(part)), cfg=b['cfg'], step=b['step']), out)


if __name__ == '__main__':
    main()
