"""For tests/test_echo: recordings with the channels near voice as it is played, microphone and Enhanced Mic."""
import sys
import wave

import numpy as np

RATE = 48000


def load(path):
    data = open(path, 'rb').read()
    at = data.index(b'data') + 8
    return np.frombuffer(data[at:at + (len(data) - at) // 12 * 12], np.float32).reshape(-1, 3).T.astype(float)


def delay(x, y):
    """Samples by which y is later than x; their spectra are made white."""
    n = 1 << (len(x) + len(y)).bit_length()
    cross = np.conj(np.fft.rfft(x, n)) * np.fft.rfft(y, n)
    peak = np.fft.irfft(cross / (abs(cross) + 1e-12 * abs(cross).max()), n)[:2 * RATE // 5]
    assert peak.max() > 5 * np.sqrt(np.mean(peak ** 2)), 'no peak'
    return int(peak.argmax())


def near(path, out):
    """A voice that is not in step with the first: the other half of the recording comes first, again and again."""
    with wave.open(path) as f, wave.open(out, 'wb') as g:
        x = np.frombuffer(f.readframes(f.getnframes()), '<i2')
        g.setparams(f.getparams())
        g.writeframes(np.tile(np.roll(x, len(x) // 2), 10).tobytes())


def both(path):
    """How much of the near voice is in Enhanced Mic while both talk, and how much else, by frames of 20 ms."""
    x, mic, out = load(path)
    def fit(y): # what is the near voice's of y: the best filter of 1 ms
        later = delay(x[5 * RATE:], y[5 * RATE:]) - 24
        m = len(x) - later - RATE // 10
        shifted = np.stack([x[k:m + k] for k in range(48)][::-1])
        y = y[later + 47:later + 47 + m]
        h = np.linalg.solve(shifted @ shifted.T + 1e-9 * np.eye(48), shifted @ y)
        return x[47:47 + m], h @ shifted, y
    level = []
    for y in (mic, out):
        voice, part, whole = fit(y)
        frames = [a[10 * RATE:len(a) // 960 * 960].reshape(-1, 960) for a in (voice, part, whole - part)]
        speaks = (frames[0] ** 2).mean(1) > 1e-5
        level.append([10 * np.log10((a[speaks] ** 2).mean()) for a in frames[1:]])
    (near_in, echo_in), (near_out, echo_out) = level
    print(f'  both talk: near voice {near_in:.1f} dB in the microphone, {near_out:.1f} dB in Enhanced Mic; '
          f'all else {echo_in:.1f} dB and {echo_out:.1f} dB')
    return near_out > near_in - 6


def gaps(path):
    """The recording goes on to the end, with sound."""
    out = load(path)[2]
    heard = np.flatnonzero(out)
    print(f'  {len(out) / RATE:.1f} s recorded, Enhanced Mic heard until {heard[-1] / RATE:.1f} s')
    return heard[-1] > len(out) - RATE


if sys.argv[1] == 'delay':
    _, mic, enhanced = load(sys.argv[2])
    print(f'{1000 * delay(mic[RATE:], enhanced[RATE:]) / RATE:.2f}')
elif sys.argv[1] == 'near':
    near(*sys.argv[2:])
else:
    sys.exit(not {'both': both, 'gaps': gaps}[sys.argv[1]](sys.argv[2]))
