"""Pairs of what ordinary noisy speech does not show:
python3 -m training.evaluation.cases PAIRS DATA OUT [--music REGEX] [--laughter DIR] [--singing DIR]

PAIRS is a folder of pairs that evaluate.py reads, DATA what prepare.py packs, OUT another folder of pairs, a kind for
each case:
clean      clean speech alone: must come through untouched
noise      noise alone: must go
headset    a pair through a telephone's band, 300 to 3400 Hz, at 8 kHz
babble     speech under six other voices as loud together as it is
caller     a telephone's voice after one of full band, 5 dB over six voices of a telephone's band, as in recorded calls
thuds      speech 5 dB over bumps of a desk: every second a low burst of noise that lasts a tenth of one
music      speech 5 dB over music: clips of DATA's noise whose names match
after      a pair after one of other speech, noise and level: what a stream has heard must not spoil what follows
muted      the same with five seconds of digital silence between
laughter   the recordings in a folder, alone: must come through; laughter-noisy: 15 dB over the noise of a pair
singing    the same of another folder
"""
import argparse
import csv
import os
import re

import numpy as np
import soundfile
from scipy.signal import butter, resample_poly, sosfilt, sosfiltfilt

from training.data.prepare import RATE, decode, level, read_index

SHORTEST = 2 * RATE                                    # of a clip of music
LONGEST = 20 * RATE                                    # of what is taken of one recording


def read_pairs(folder):
    """-> [(row, rate, clean, noisy)] of the pairs that have a clean file"""
    with open(os.path.join(folder, 'pairs.tsv')) as f:
        rows = list(csv.DictReader(f, delimiter='\t'))
    path = lambda r, part: os.path.join(folder, f"{r['name']}_{part}.flac")
    return [(r, int(r['rate']), *(soundfile.read(path(r, part))[0] for part in ('clean', 'noisy')))
            for r in rows if os.path.exists(path(r, 'clean'))]


def clips(data, pattern):
    """Noise clips at 48 kHz whose names match: [(name, samples)]"""
    packs, files = read_index(data)
    files = [os.path.join(data, f) for f in files if f.startswith('noise')]
    ends = np.cumsum([soundfile.info(f).frames * RATE // soundfile.info(f).samplerate for f in files])
    found = []
    for s in packs['noise']:
        if re.search(pattern, s['name']) and s['stop'] - s['start'] >= SHORTEST:
            i = int(np.searchsorted(ends, s['start'], 'right'))
            first = int(ends[i - 1]) if i else 0
            stop = min(s['stop'], s['start'] + LONGEST)
            with soundfile.SoundFile(files[i]) as f:
                step = RATE // f.samplerate
            found.append((s['name'], decode((files[i], (s['start'] - first) // step, (stop - first) // step)) / 32768))
    return found


def recordings(folder):
    """All that lies there, at 48 kHz and one level, .3 s of nothing before and after each: [(name, samples)]"""
    found = []
    for name in sorted(os.listdir(folder)):
        x, rate = soundfile.read(os.path.join(folder, name), always_2d=True)
        x = resample_poly(x.mean(1), RATE, rate)[:LONGEST]
        found.append((name, np.pad(x / level(x) * 10 ** (-26 / 20), RATE * 3 // 10)))
    return found


def over(speech, noise, snr_db):
    """speech [n], noise of any length -> speech with noise snr_db below its level."""
    noise = np.resize(noise, len(speech))
    return speech + noise / (np.sqrt((noise ** 2).mean()) + 1e-9) * level(speech) * 10 ** (-snr_db / 20)


def telephone(x, rate):
    """x at `rate` -> x band-limited to 300 to 3400 Hz, at 8 kHz."""
    x = resample_poly(x, 8000, rate)
    return sosfiltfilt(butter(4, [300, 3400], 'bandpass', fs=8000, output='sos'), x)


def thuds(samples, rate, seed):
    """Bumps on a desk, one per second: [samples] at `rate`, reproducible by the seed."""
    rng = np.random.default_rng(seed)
    x, t = np.zeros(samples), np.arange(rate // 2) / rate
    burst = butter(2, [40, 400], 'bandpass', fs=rate, output='sos')
    for first in range(0, samples, rate):
        at = first + rng.integers(rate)
        one = sosfilt(burst, rng.standard_normal(len(t)) * np.exp(-t / .03))[:max(0, samples - at)]
        x[at:at + len(one)] += one * rng.uniform(.3, 1)
    return x


def cases(pairs, music, people, count):
    """yields kind, rate, SNR, clean, noisy, speech, noise; what comes before `clean` in `noisy` is not scored"""
    wide = [p for p in pairs if p[1] == 16000]
    some = lambda of, n: of[::max(1, len(of) // n)][:n]
    full = [p for p in pairs if p[1] != 16000]
    mixed = some(wide, count // 2) + some(full, count // 2)
    for r, rate, clean, _ in mixed:
        yield 'clean', rate, np.inf, clean, clean, r['speech'], ''
    for r, rate, clean, noisy in mixed:
        yield 'noise', rate, -np.inf, np.zeros(len(clean)), noisy - clean, '', r['noise']
    for r, rate, clean, noisy in mixed:
        yield 'headset', 8000, float(r['snr_db']), telephone(clean, rate), telephone(noisy,
                                                                                     rate), r['speech'], r['noise']
    for i, (r, rate, clean, _) in enumerate(some(wide, count)):
        voices = [q[2] / level(q[2]) for q in wide if q[0]['speech'] != r['speech']]
        babble = sum(np.resize(voices[(5 * i + k) % len(voices)], len(clean)) for k in range(6))
        yield 'babble', rate, 0., clean, over(clean, babble, 0), r['speech'], 'six voices'
        if full:
            by_telephone = lambda x: resample_poly(telephone(x, rate), RATE, 8000)
            caller, (_, at, host, _) = by_telephone(clean), full[i % len(full)]
            both = np.concatenate([resample_poly(host / level(host, at), RATE, at), caller / level(caller)]) * .05
            caller = both[-len(caller):]
            yield 'caller', RATE, 5., caller, over(both, by_telephone(babble), 5), r['speech'], 'six voices'
    for i, (r, rate, clean, _) in enumerate(mixed):
        yield 'thuds', rate, 5., clean, over(clean, thuds(len(clean), rate, i), 5), r['speech'], 'thuds'
    for i, (name, x) in enumerate(music):
        r, rate, clean, _ = wide[i % len(wide)]
        yield 'music', rate, 5., clean, over(clean, resample_poly(x, 1, RATE // rate), 5), r['speech'], name
    for kind, seconds in ('after', 0), ('muted', 5):
        for i, (r, rate, clean, noisy) in enumerate(mixed):
            _, before_rate, _, before = mixed[i - 1]
            before = resample_poly(before, rate, before_rate)
            noisy = np.concatenate([before, np.zeros(seconds * rate), noisy])
            yield kind, rate, float(r['snr_db']), clean, noisy, r['speech'], r['noise']
    for kind, found in people.items():
        for i, (name, x) in enumerate(found):
            r, rate, clean, noisy = mixed[i % len(mixed)]
            yield kind, RATE, np.inf, x, x, name, ''
            yield kind + '-noisy', RATE, 15., x, over(x, resample_poly(noisy - clean, RATE, rate), 15), name, r['noise']


def main():
    ap = argparse.ArgumentParser(description='Pairs of what ordinary noisy speech does not show.')
    ap.add_argument('pairs')
    ap.add_argument('data')
    ap.add_argument('out')
    ap.add_argument('--music', default='music')
    ap.add_argument('--laughter')
    ap.add_argument('--singing')
    ap.add_argument('--count', type=int, default=20, help='of each kind, at most')
    a = ap.parse_args()
    pairs = read_pairs(a.pairs)
    if len({r['speech'] for r, rate, _, _ in pairs if rate == 16000}) < 2:
        ap.error(f'{a.pairs}: babble is of other voices at 16 kHz: there are to be two at least')
    os.makedirs(a.out, exist_ok=True)
    music = clips(a.data, a.music)[:a.count]
    people = {kind: recordings(folder)[:a.count] for kind, folder in (('laughter', a.laughter), ('singing', a.singing))
              if folder}
    n = {}
    with open(os.path.join(a.out, 'pairs.tsv'), 'w') as table:
        print('name', 'rate', 'snr_db', 'start', 'speech', 'noise', sep='\t', file=table)
        for kind, rate, snr, clean, noisy, speech, noise in cases(pairs, music, people, a.count):
            n[kind] = n.get(kind, -1) + 1
            name, gain = f'{kind}_{n[kind]:02}', min(1, .98 / np.abs(noisy).max())
            start = len(noisy) - len(clean)
            for part, x in ('clean', np.pad(clean, (start, 0))), ('noisy', noisy):
                soundfile.write(os.path.join(a.out, f'{name}_{part}.flac'), x * gain, rate)
            print(name, rate, snr, start, speech, noise, sep='\t', file=table)


if __name__ == '__main__':
    main()
