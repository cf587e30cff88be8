"""For tests/live/test_echo: recordings with the channels near voice as it is played, microphone and Enhanced Mic."""
import sys
import wave

import numpy as np

RATE = 48000


def load(path, channels=3):
    data = open(path, 'rb').read()
    at, frame = data.index(b'data') + 8, 4 * channels
    samples = np.frombuffer(data[at:at + (len(data) - at) // frame * frame], np.float32)
    return samples.reshape(-1, channels).T.astype(float)


def read_voice(path):
    with wave.open(path) as f:
        return f.getparams(), np.frombuffer(f.readframes(f.getnframes()), '<i2')


def sounds(**channels):
    """Refuses a recording in which a channel has less than a second of sound above -60 dB."""
    for name, x in channels.items():
        heard = (x[:len(x) // 960 * 960].reshape(-1, 960) ** 2).mean(1) > 1e-6
        if heard.sum() < 50:
            sys.exit(f'no sound in {name}: {heard.sum() * .02:.2f} s of {len(x) / RATE:.2f}')


def delay(x, y):
    """Samples by which y is later than x. Their spectra are made white as far as they reach: in a band without voice
    the edges of cycles that a loaded machine missed would count for more than the voice. So would, without a window,
    the edges of the recording."""
    n = 1 << (len(x) + len(y)).bit_length()
    x, y = (np.fft.rfft(a * np.hanning(len(a)), n) for a in (x, y))
    cross = np.conj(x) * y
    peak = np.fft.irfft(cross / (abs(cross) + 1e-4 * abs(cross).max()), n)[:2 * RATE // 5]
    assert peak.max() > 5 * np.sqrt(np.mean(peak ** 2)), 'no peak'
    return int(peak.argmax())


def known(path):
    """Every two seconds of a voice and the same 2686 samples earlier, each without three blocks: their delay is found."""
    x, rng = read_voice(path)[1] / 32768, np.random.default_rng(1)

    def part(at):
        y = x[at:at + 2 * RATE].copy()
        for block in rng.integers(0, len(y) // 256, 3):
            y[256 * block:256 * (block + 1)] = 0
        return y

    wrong = [(at / RATE, found) for at in range(2686, 40 * RATE, RATE)
             if (found := delay(part(at), part(at - 2686))) != 2686]
    if wrong:
        sys.exit(f'of a delay of 2686 samples (seconds, samples found): {wrong}')


def voices(path, far, near):
    """The far voice is the recording, again and again for minutes; the near one begins with the other half, so that
    they are not in step."""
    params, x = read_voice(path)
    for out, y in (far, x), (near, np.roll(x, len(x) // 2)):
        with wave.open(out, 'wb') as g:
            g.setparams(params)
            g.writeframes(np.tile(y, 10).tobytes())


def levels(*paths):
    """Of the last 8 s of the microphone and of Enhanced Mic, in dB."""
    mic, out = (load(path, 1)[0] for path in paths)
    n = min(len(mic), len(out)) - RATE // 10
    mic, out = (y[max(n - 8 * RATE, 0):n] for y in (mic, out))
    sounds(microphone=mic)
    print(*(f'{10 * np.log10(np.mean(y ** 2) + 1e-12):.1f}' for y in (mic, out)))


def both(path):
    """How much of the near voice is in Enhanced Mic while both talk, and how much else, by frames of 20 ms."""
    x, mic, out = load(path)
    sounds(near_voice=x, microphone=mic, Enhanced_Mic=out)
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
    if near_out < near_in - 6:
        sys.exit('little is left of the near voice')


def gaps(path):
    """The recording goes on to the end, with sound."""
    out = load(path)[2]
    heard = np.flatnonzero(out)
    print(f'  {len(out) / RATE:.1f} s recorded, Enhanced Mic heard until {heard[-1] / RATE:.1f} s')
    if heard[-1] < len(out) - RATE:
        sys.exit('Enhanced Mic did not go on')


def told(path, later):
    """The delay of Enhanced Mic behind the microphone, in ms; the recorder heard it so many samples later."""
    _, mic, out = load(path)
    sounds(microphone=mic, Enhanced_Mic=out)
    print(f'{1000 * (delay(mic, out) - int(later)) / RATE:.2f}')


commands = {'both': both, 'delay': told, 'gaps': gaps, 'known': known, 'levels': levels, 'voices': voices}
commands[sys.argv[1]](*sys.argv[2:])
