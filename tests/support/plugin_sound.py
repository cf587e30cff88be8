"""Sound for tests/programs/test_hosts: makes it, and compares what a host made of it with the library's output."""
import ctypes
import os
import struct
import sys

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../examples'))
DELAY, HOP, BLOCK = 1024, 512, 256


def load(path):
    data = open(path, 'rb').read()
    channels = struct.unpack_from('<H', data, data.index(b'fmt ') + 10)[0]
    at = data.index(b'data') + 8
    n = (len(data) - at) // (4 * channels) * channels
    return np.frombuffer(data[at:], np.float32, n).reshape(-1, channels)


def make(path, channels):
    rng, n = np.random.default_rng(7), 4 * 48000
    t = np.arange(n) / 48000
    voice = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 30)) * np.clip(np.sin(2 * np.pi * 2.5 * t), 0, 1)
    x = 0.05 * voice[:, None] + 0.02 * rng.standard_normal((n, channels))
    if channels == 1: # bursts of half a second
        x[t % 1.2 > 0.5] = 0
    data = x.astype(np.float32).tobytes()
    with open(path, 'wb') as f:
        f.write(struct.pack('<4sI4s4sIHHIIHH4sI', b'RIFF', 36 + len(data), b'WAVE', b'fmt ', 16, 3, channels, 48000,
                            48000 * 4 * channels, 4 * channels, 32, b'data', len(data)) + data)


class Library:
    """The library's output for one channel, with its delay of 768 samples; model small."""

    def __init__(self, floor_db=-np.inf):
        import enhance as library # examples/enhance.py; only here, since the library need not be there for the rest
        self.lib = library.lib
        self.handle = library.open_model('small', engine=b'cpu', block=BLOCK)
        library.set_controls(self.handle, 0, floor_db=floor_db)

    def enhance(self, x):
        y = np.array(x[:len(x) // BLOCK * BLOCK])
        row = (ctypes.c_void_p * 1)(y.ctypes.data)
        self.lib.primeknet_reset(self.handle, 0)
        assert self.lib.primeknet_process(self.handle, row, row, ctypes.c_size_t(len(y))) == 0
        return y


def compare(before, after, floor_db, delay=DELAY):
    """delay: how many samples the sound in the file `after` is behind that in `before`."""
    x, y, library = load(before), load(after), Library(floor_db if floor_db > -60 else -np.inf)
    assert x.shape[1] == y.shape[1], f'{after} has {y.shape[1]} channels'
    assert delay or len(x) == len(y), f'{after} has {len(y)} samples, not {len(x)}'
    for channel in range(x.shape[1]):
        wanted = library.enhance(x[:, channel])[768 - min(768, delay):]
        later = max(0, delay - 768)
        n = min(len(wanted), len(y) - later)
        assert n > 3 * 48000, f'{after} has {len(y)} samples only'
        differs = np.flatnonzero(y[later:later + n, channel] != wanted[:n])
        assert len(differs) == 0, f'channel {channel}: {len(differs)} of {n} samples differ, the first at {differs[0]}'


def chain(seconds, paths):
    """The microphone on the left, the enhanced one on the right, each time by a new host. On a machine too busy for real
    time a recording may lack cycles, but not all do."""
    n, library, later, silence = int(48000 * seconds), Library(), DELAY - 768, np.zeros((8 * HOP, 2), np.float32)
    for path in paths:
        x = load(path)
        start = int(np.argmax(x[:, 0] != 0))
        x = np.concatenate([silence, x, silence])
        start += len(silence)
        for at in range(start - HOP + 1, start + 1): # where hops begin depends on the first cycles' quantum
            for length in (2048, n // BLOCK * BLOCK):
                wanted = library.enhance(np.concatenate([silence, x[at:at + length]])[:, 0])[len(silence):]
                if not (x[at + later:at + later + length, 1] == wanted).all():
                    break
            else:
                assert wanted.any()
                return
    raise SystemExit(f'none of {len(paths)} recordings has the library\'s output')


if __name__ == '__main__':
    if sys.argv[1] == 'make':
        make(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == 'compare':
        compare(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    elif sys.argv[1] == 'aligned':
        compare(sys.argv[2], sys.argv[3], -60, 0)
    else:
        chain(float(sys.argv[2]), sys.argv[3:])
