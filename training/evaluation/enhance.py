"""Enhance audio files with averaged weights: python3 -m training.evaluation.enhance WEIGHTS OUT FILE...

Any rate that divides or is divided by 48 kHz; each result keeps its file's name, rate and timing, as FLAC.
"""
import os
import sys

import soundfile
import torch
from scipy.signal import resample_poly

from training.data.clips import RATE
from training.export import load


@torch.no_grad()
def enhance(net, x):
    """x: samples at 48 kHz -> the same number of enhanced samples, without the network's delay."""
    w = torch.tensor(x, dtype=torch.float32, device=net.win.device)[None]
    w = torch.nn.functional.pad(w, (0, -len(x) % net.hop + net.window))
    return net.istft(net(w)[2], len(x))[0].cpu().numpy()


def over_files(change, out, files, at=RATE):
    """change: function of a file's samples at the rate `at` that returns the same number."""
    os.makedirs(out, exist_ok=True)
    for f in files:
        x, rate = soundfile.read(f)
        y = resample_poly(change(resample_poly(x, at, rate)), rate, at)[:len(x)]
        soundfile.write(os.path.join(out, os.path.splitext(os.path.basename(f))[0] + '.flac'), y.clip(-1, 1), rate)


def main():
    weights, out, *files = sys.argv[1:]
    net, _ = load(weights, 'cuda' if torch.cuda.is_available() else 'cpu')
    over_files(lambda x: enhance(net, x), out, files)


if __name__ == '__main__':
    main()
