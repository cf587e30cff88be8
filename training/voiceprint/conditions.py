"""What lies between a voice and its recording: rooms, microphones, noise, bands, codecs; at 16 kHz, in numpy.

Functions of random conditions take a generator; the same generator makes the same conditions.
"""
import csv
import io
import os

import numpy as np
import soundfile
from scipy.fft import irfft, next_fast_len, rfft

from training.data.originals import recordings
from training.data.prepare import RATE as FULL_RATE
from training.data.prepare import for_judging
from training.voiceprint.data import decoded
from training.voiceprint.network import RATE

ROOM = FULL_RATE // 2                                   # samples of a response in ROOMS.flac
LONGEST_NOISE = 20                                      # s of one noise
CODECS = (('OGG', 'VORBIS', RATE), ('MP3', 'MPEG_LAYER_III', RATE), ('WAV', 'GSM610', RATE // 2),
          ('WAV', 'ULAW', RATE // 2), ('WAV', 'IMA_ADPCM', RATE))


def rooms(path, judging):
    """ROOMS.flac and .tsv, as judge.py reads them -> [n, samples] at RATE: those to judge with, or the others"""
    x, rate = soundfile.read(path + '.flac', dtype='float32')
    with open(path + '.tsv') as f:
        chosen = [for_judging(f"{r['source']}/{r['place']}") == judging for r in csv.DictReader(f, delimiter='\t')]
    n = ROOM * RATE // rate
    return np.stack([irfft(rfft(h)[:n // 2 + 1], n) for h in x.reshape(-1, ROOM)[chosen]])


def noises(folder, most=None):
    """Noise and music below a folder FOLDER/KIND/SOURCE/SPEAKER/FILE -> [[n] at RATE], of RMS 1"""
    kinds = [k for k in ('noise', 'music') if os.path.isdir(os.path.join(folder, k))]
    sources = {s: ('train', '') for k in kinds for s in os.listdir(os.path.join(folder, k))}
    found = [path for kind, _, _, path in recordings(folder, sources, set()) if kind in kinds]
    found = found[::max(1, len(found) // most)] if most else found
    made = (decoded(p)[:LONGEST_NOISE * RATE] for p in found)
    return [x / np.sqrt((x ** 2).mean()) for x in made if len(x) > RATE // 2]


def lasting(x, n, rng):
    """n samples of x, from anywhere, repeated where it is too short"""
    at = rng.integers(max(1, len(x) - n + 1))
    return np.tile(x, n // len(x) + 1)[at:at + n] if len(x) < n else x[at:at + n]


def band(f, low, high, width=200):
    """Gains of a band at f in Hz: raised-cosine edges that end at `low` and `high`"""
    up, down = np.clip((f - low) / max(30, low / 3), 0, 1), np.clip((high - f) / width, 0, 1)
    return (.5 - .5 * np.cos(np.pi * up)) * (.5 - .5 * np.cos(np.pi * down))


def response(f, rng, most=8.):
    """A random smooth one, as microphones have: up to +-`most` dB at nine frequencies"""
    place = np.log(np.maximum(f, 60) / 60) / np.log(RATE / 2 / 60)
    return 10 ** (np.interp(place, np.linspace(0, 1, 9), rng.uniform(-most, most, 9)) / 20)


def power(X):
    return np.vdot(X, X).real


def changed(x, h=None, gain=None, noise=None, snr_db=0, noise_gain=None, after=None):
    """x [n] in a room h [m], through gain(f), with noise [n] through noise_gain(f) so many dB below it, all through
    after(f) -> [n] of the same peak"""
    m = next_fast_len(len(x) + (0 if h is None else len(h)) + RATE // 20, real=True)
    f = np.linspace(0, RATE / 2, m // 2 + 1, dtype=np.float32)
    X = rfft(x.astype(np.float32), m)
    if h is not None:
        X *= rfft(h.astype(np.float32), m)
    if gain:
        X *= gain(f)
    if noise is not None:
        V = rfft(noise.astype(np.float32), m)
        if noise_gain:
            V *= noise_gain(f)
        X += V * np.float32((power(X) / (power(V) + 1e-9)) ** .5 * 10 ** (-snr_db / 20))
    if after:
        X *= after(f)
    y = irfft(X, m)[:len(x)]
    return (y * (np.abs(x).max() / (np.abs(y).max() + 1e-9))).astype(np.float32)


def coded(x, codec, quality=.9):
    """x [n] through a codec of calls or of recordings"""
    kind, subtype, rate = codec
    n = len(x) // 2 * 2
    narrow = x if rate == RATE else irfft(rfft(x[:n])[:n // 4 + 1], n // 2) / 2
    f = io.BytesIO()
    soundfile.write(f, np.clip(narrow, -1, 1), rate, format=kind, subtype=subtype,
                    **{'compression_level': quality} if kind != 'WAV' else {})
    f.seek(0)
    y = soundfile.read(f, dtype='float32')[0]
    if rate != RATE:
        y = irfft(rfft(y), 2 * len(y)) * 2
    return np.pad(y, (0, max(0, len(x) - len(y))))[:len(x)].astype(np.float32)


class Conditions:
    """Random ones, of rooms [n, samples], noises [[n]] and other voices: speech [n] int16."""

    def __init__(self, responses, recorded, voices):
        self.responses, self.recorded, self.voices = responses, recorded, voices

    def noise(self, n, rng):
        """-> [n], and the most that its spectrum is to be varied in dB"""
        kind = rng.random()
        if kind < .2:                                   # babble
            parts = [lasting(self.voices, n, rng).astype(np.float32) for _ in range(rng.integers(3, 8))]
            return sum(p / (np.sqrt((p ** 2).mean()) + 1) * rng.uniform(.4, 1) for p in parts), 3
        if kind < .4 or not self.recorded:
            return rng.standard_normal(n, np.float32), 20
        return lasting(self.recorded[rng.integers(len(self.recorded))], n, rng), 8

    def __call__(self, x, rng):
        """x [n], peak at most 1 -> the same as another recording of it might be"""
        kinds = {}
        if rng.random() < .6:
            kinds['h'] = self.responses[rng.integers(len(self.responses))]
        if rng.random() < .7:
            kinds['gain'] = lambda f: response(f, rng)
        if rng.random() < .75:
            v, most = self.noise(len(x), rng)
            kinds |= dict(noise=v, snr_db=rng.uniform(0, 25), noise_gain=lambda f: response(f, rng, most))
        kind = rng.random()
        if kind < .4:
            narrow = kind < .15
            low, high = rng.uniform(*(200, 350) if narrow else (40, 200)), rng.uniform(3400, 3900 if narrow else 8000)
            kinds['after'] = lambda f: band(f, low, high)
        x = changed(x, **kinds)
        if rng.random() < .05:
            top = np.abs(x).max() * rng.uniform(.2, .8)
            x = np.clip(x, -top, top)
        return coded(x, CODECS[rng.integers(len(CODECS))], rng.uniform(.6, .95)) if rng.random() < .12 else x
