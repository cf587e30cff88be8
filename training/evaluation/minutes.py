"""What an hour does to a stream:
python3 -m training.evaluation.minutes make PAIRS STREAM.flac; enhance it to OUT;
python3 -m training.evaluation.minutes score PAIRS OUT FRESH

PAIRS is a folder that evaluate.py reads. STREAM is one long recording: after 1, 10 and 60 minutes a dozen of the pairs'
noisy files, the probes, one after the other; before and between them others, louder and softer, with pauses of up to
twenty seconds. FRESH holds the probes enhanced each alone from a fresh start. The table compares the two by WB-PESQ and
SI-SDR.
"""
import sys

import numpy as np
import soundfile
from pesq import pesq
from scipy.signal import resample_poly

from training.data.prepare import RATE
from training.evaluation.cases import read_pairs
from training.evaluation.evaluate import read_enhanced
from training.evaluation.measures import si_sdr

MINUTES = 1, 10, 60
PROBES = 12


def plan(pairs):
    """yields (sample, pair, gain, minute or None), in the order of the stream, the same for the same pairs"""
    rng = np.random.default_rng(0)
    at = 0
    length = lambda p: len(p[3]) * RATE // p[1]
    for minute in MINUTES:
        while at < minute * 60 * RATE:
            p = pairs[rng.integers(len(pairs))]
            yield at, p, 10 ** (rng.uniform(-20, 0) / 20), None
            at += length(p) + int(RATE * rng.choice([0, .5, 3, 20], p=[.4, .3, .25, .05]))
        for p in pairs[::max(1, len(pairs) // PROBES)][:PROBES]:
            yield at, p, 1., minute
            at += length(p)


def make(pairs, path):
    """Writes the stream as the file `path`, 48 kHz."""
    at = 0
    with soundfile.SoundFile(path, 'w', RATE, 1) as f:
        for start, (_, rate, _, noisy), gain, _ in plan(pairs):
            f.write(np.zeros(start - at))
            x = resample_poly(noisy, RATE // rate, 1) * gain
            f.write(x.clip(-1, 1))
            at = start + len(x)


def score(pairs, path, fresh):
    """Prints the difference of the probes in the enhanced stream `path` from those in the folder `fresh`."""
    rows = []
    for start, (row, rate, clean, _), _, minute in plan(pairs):
        if minute is None:
            continue
        n = len(clean) * RATE // rate
        y = resample_poly(soundfile.read(path, start=start, stop=start + n)[0], 1, RATE // rate)
        values = []
        for e in read_enhanced(fresh, row['name'], clean, 0), y:
            at16 = lambda x: resample_poly(x, 16000, rate)
            values.append((pesq(16000, at16(clean), at16(e), 'wb'), si_sdr(clean, e)))
        rows.append((minute, *np.subtract(values[1], values[0])))
    print('minute  probes  WB-PESQ  SI-SDR  against a fresh start; largest loss of one probe')
    for minute in MINUTES:
        d = np.array([r[1:] for r in rows if r[0] == minute])
        (pesq_mean, sdr_mean), (pesq_least, sdr_least) = d.mean(0), d.min(0)
        print(f'{minute:6}  {len(d):6}  {pesq_mean:+7.3f}  {sdr_mean:+6.2f}  {pesq_least:+.3f}, {sdr_least:+.2f} dB')


def main():
    verb, pairs, *files = sys.argv[1:]
    {'make': make, 'score': score}[verb](read_pairs(pairs), *files)


if __name__ == '__main__':
    main()
