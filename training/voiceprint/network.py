"""The voice print: a vector of unit length that says who speaks, from a window of speech at 16 kHz.

Prints of one voice point the same way whatever it says; their inner product is the score of a comparison.
"""
import math
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

RATE, WINDOW, HOP = 16000, 400, 160
BANDS, LOWEST, HIGHEST = 48, 60., 7600.                 # Hz
STACK = 4                                               # frames in a step: 40 ms
FLOOR = .01                                             # of a band's power, where the window's RMS is 1
SIZE = 256                                              # of a print
SPAN, STEP, LEAST = 38400, 19200, 12800                 # samples of a window, between windows, of the shortest window
SILENCE, QUIET = 1e-4, .1                               # RMS of windows that do not count: absolute, to the loudest one


def mel_bands():
    """[bands, bins]: triangles, equally wide on the mel scale, whose weights have a sum of 1."""
    mel = lambda hz: 2595 * np.log10(1 + hz / 700)
    edges = 700 * (10 ** (np.linspace(mel(LOWEST), mel(HIGHEST), BANDS + 2) / 2595) - 1)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    hz = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    w = np.minimum((hz - low) / (centre - low), (high - hz) / (high - centre)).clip(0)
    return torch.tensor(w / w.sum(1, keepdims=True), dtype=torch.float32)


class Features(nn.Module):
    """[n, samples] -> [n, frames, bands]: the logarithms of the bands' powers, for sound of any level."""

    def __init__(self):
        super().__init__()
        self.register_buffer('window', torch.hann_window(WINDOW))
        self.register_buffer('bands', mel_bands())

    def forward(self, x):
        x = x / x.square().mean(1, keepdim=True).sqrt().clamp_min(SILENCE)
        power = torch.fft.rfft(x.unfold(1, WINDOW, HOP) * self.window).abs().square()
        return torch.log(power @ self.bands.t() + FLOOR)


def normalised(features):
    """[n, frames, bands] -> [n, steps, STACK * bands]: without their mean over the frames, which is mostly the
    microphone's."""
    f = features[:, :features.shape[1] // STACK * STACK]
    f = f - f.mean(1, keepdim=True)
    return f.reshape(len(f), -1, STACK * f.shape[2])


class Encoder(nn.Module):
    """[n, steps, STACK * BANDS] -> prints [n, SIZE]."""

    def __init__(self, channels=256, layers=2):
        super().__init__()
        self.inp = nn.Linear(STACK * BANDS, channels)
        self.act = nn.PReLU(channels)
        self.gru = nn.GRU(channels, channels, layers, batch_first=True)
        self.pool = nn.Linear(channels, 1)
        self.out = nn.Linear(channels, SIZE)

    def forward(self, x):
        h = self.gru(self.act(self.inp(x).mT).mT)[0]
        return F.normalize(self.out((h * self.pool(h).softmax(1)).sum(1)), dim=1)


class Voiceprint(nn.Module):
    """Encoder of sound."""

    def __init__(self, channels=256, layers=2):
        super().__init__()
        self.features, self.encoder = Features(), Encoder(channels, layers)

    def forward(self, x):
        """[n, samples] -> [n, SIZE]."""
        return self.encoder(normalised(self.features(x)))

    def print_of(self, x):
        """[samples], LEAST or more -> [SIZE], or None of silence: the mean over the windows that count."""
        return self.prints_of([x])[0]

    @torch.no_grad()
    def prints_of(self, sounds, batch=64):
        """print_of() each, many windows at once."""
        windows = [counted(x) if len(x) >= LEAST else [] for x in sounds]
        of, made = defaultdict(list), {}
        for i, ws in enumerate(windows):
            for k, w in enumerate(ws):
                of[len(w)].append((i, k))
        for places in of.values():
            for at in range(0, len(places), batch):
                some = places[at:at + batch]
                made |= zip(some, self(torch.stack([windows[i][k] for i, k in some])))
        return [F.normalize(sum(made[i, k] for k in range(len(ws))), dim=0) if len(ws) else None
                for i, ws in enumerate(windows)]


def counted(x):
    """[samples] -> the windows of it that count [n, SPAN]"""
    windows = windows_of(x)
    rms = windows.square().mean(1).sqrt()
    return windows[(rms > SILENCE) & (rms > QUIET * rms.max())]


def windows_of(x):
    """[samples] -> [n, SPAN], or [1, samples] of less than SPAN; the last window ends where x does."""
    span = min(SPAN, len(x))
    count = 1 + math.ceil((len(x) - span) / STEP)
    return torch.stack([x[s:s + span] for s in (min(i * STEP, len(x) - span) for i in range(count))])
