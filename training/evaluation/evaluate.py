"""Score enhanced audio:
python3 -m training.evaluation.evaluate PAIRS ENHANCED [--delay N] [--dnsmos] [--distillmos] [--jobs N]
[--out FILE.tsv] [--against FILE.tsv] [--pictures DIR [--of NAME...]]

PAIRS holds pairs.tsv (name, rate, snr_db, ...) and NAME_clean.flac, NAME_noisy.flac; ENHANCED, made by any tool,
NAME_noisy.* or NAME.* of the same rate, or is a table that --out wrote. A recording without a clean file only gets
scores that need none. Where the table has a column `start`, so many samples at the beginning are not scored. The first
part of a name is its kind. Means with 95 % intervals of what measures.py defines (of `left` medians) are given for all,
for what is below 2.5 dB SNR, for each kind and for each SNR; with --dnsmos also of DNSMOS P.835 (OVRL, SIG, BAK), with
--distillmos of Distill-MOS.

--out writes a row for each clip; --against compares with such a table of the same pairs: the mean difference of each
clip to itself.
"""
import argparse
import csv
import glob
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from functools import cache, partial

import numpy as np
import soundfile
from scipy.ndimage import maximum_filter1d

from training.evaluation.measures import NAMES, at_16k, measure

LOW_SNR = 2.5
KEYS = *NAMES, 'OVRL', 'SIG', 'BAK', 'distillmos'
DNSMOS_CURVES = (-.08397278, 1.22083953, .0052439), (-.13166888, 1.60915514, -.39604546), (-.06766283, 1.11546468,
                                                                                      .04602535)


def gate(noisy, rate):
    """A plain energy gate, to compare with: 10 ms frames less than 6 dB over the quiet ones are turned down by 30
    dB."""
    n = rate // 100
    e = (np.resize(noisy, -(-len(noisy) // n) * n).reshape(-1, n) ** 2).mean(1)
    open_ = maximum_filter1d((e > 4 * np.quantile(e, .1)).astype(float), 11)
    return noisy * np.repeat(.03 + .97 * open_, n)[:len(noisy)]


@cache
def dnsmos():
    """-> function of samples at 16 kHz that gives {name: score}, as does distillmos(): DNSMOS P.835 of the package
    speechmos, without its P.808 network, on one thread"""
    import onnxruntime
    from speechmos import dnsmos as package
    folder = os.path.join(os.path.dirname(package.__file__), 'dnsmos_models')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.path.join(folder, 'sig_bak_ovr.onnx'), options)
    window = int(9.01 * 16000)
    curves = [np.poly1d(c) for c in DNSMOS_CURVES]

    def score(x):
        while len(x) < window:
            x = np.append(x, x)
        raw = [session.run(None, {'input_1': x[None, s:s + window]})[0][0]
               for s in range(0, int(len(x) / 16000 - 9.01) * 16000 + 1, 16000)]
        sig, bak, ovrl = (np.mean([curve(r[k]) for r in raw]) for k, curve in enumerate(curves))
        return dict(OVRL=float(ovrl), SIG=float(sig), BAK=float(bak))
    return score


@cache
def distillmos():
    """-> function of samples at 16 kHz that gives {name: score}, as does dnsmos()"""
    import torch
    from distillmos import ConvTransformerSQAModel
    with redirect_stdout(None):                         # it says where its weights are
        model = ConvTransformerSQAModel().eval()

    def score(x):
        with torch.no_grad():
            return dict(distillmos=model(torch.from_numpy(x)[None]).item())
    return score


def read_enhanced(folder, name, like, delay):
    """Reads the file of this name, aligned, and cut or padded to the length of `like`."""
    found = [f for pattern in (name + '_noisy.*', name + '.*') for f in glob.glob(os.path.join(folder, pattern))]
    if not found:
        raise SystemExit(f'evaluate.py: {folder}: nothing of {name}')
    y = soundfile.read(found[0])[0][delay:]
    return np.pad(y, (0, max(0, len(like) - len(y))))[:len(like)]


def sounds(a, pair):
    """-> rate, and the clean (None if there is none), noisy and enhanced samples to score"""
    rate = int(pair['rate'])
    path = lambda k: os.path.join(a.pairs, f"{pair['name']}_{k}.flac")
    noisy = soundfile.read(path('noisy'))[0]
    clean = soundfile.read(path('clean'))[0] if os.path.exists(path('clean')) else None
    plain = dict(clean=lambda: clean, noisy=lambda: noisy, gate=lambda: gate(noisy, rate))
    y = plain[a.enhanced]() if a.enhanced in plain else read_enhanced(a.enhanced, pair['name'], noisy,
                                                                      a.delay * rate // 48000)
    return rate, *(x if x is None else x[int(pair.get('start') or 0):] for x in (clean, noisy, y))


def score(a, pair):
    """-> the pair's row with its measurements"""
    rate, clean, noisy, y = sounds(a, pair)
    marked = slice(int(pair['mark']), int(pair['end'])) if pair.get('mark') else None
    return listen(a, pair | (dict.fromkeys(NAMES, np.nan) if clean is None
                             else measure(clean, noisy, y, rate, marked)), (rate, y))


def listen(a, row, sound=None):
    """-> the row with the scores that need no clean file; sound: rate and enhanced samples, read if not given"""
    if a.dnsmos or a.distillmos:
        rate, y = sound or sounds(a, row)[::3]
        for listener in (f for f in (dnsmos, distillmos) if getattr(a, f.__name__) and y is not None):
            row |= listener()(np.clip(at_16k(y, rate), -1, 1).astype(np.float32))
    return row


def read_table(path, keys=KEYS):
    """Rows of pairs.tsv, or of a table that --out wrote."""
    with open(path) as f:
        return [r | {k: float(r[k]) for k in keys if k in r} for r in csv.DictReader(f, delimiter='\t')]


def groups(rows):
    """-> {title: rows}"""
    kind = lambda r: r['name'].split('_')[0]
    found = {'all': rows, f'< {LOW_SNR} dB': [r for r in rows if float(r['snr_db']) < LOW_SNR]}
    found |= {k: [r for r in rows if kind(r) == k] for k in sorted({kind(r) for r in rows}, reverse=True)}
    return found | {f'{s:g} dB': [r for r in rows if float(r['snr_db']) == s]
                    for s in sorted({float(r['snr_db']) for r in rows})}


def cell(values, middle=False):
    """The mean of the finite values with its 95 % interval, or their median, as text."""
    v = np.array([x for x in values if np.isfinite(x)])
    if not len(v):
        return '-'
    return f'{np.median(v):.2f}' if middle else f'{v.mean():.3f}±{1.96 * v.std() / len(v) ** .5:.3f}'


def table(columns, keys):
    """Prints the mean of each key over each column's rows."""
    columns = {k: rows for k, rows in columns.items() if rows}
    print(f"{'':12}" + ''.join(f'{k:>15}' for k in columns))
    print(f"{'clips':12}" + ''.join(f'{len(rows):15}' for rows in columns.values()))
    for key in keys:
        cells = [cell([r[key] for r in rows], key == 'left') for rows in columns.values()]
        if set(cells) != {'-'}:
            print(f'{key:12}' + ''.join(f'{c:>15}' for c in cells))


def differences(pairs, keys):
    """For pairs of rows: the first one's description, with the differences of its values from the other's."""
    return [a | {k: a[k] - b[k] for k in keys} for a, b in pairs]


def picture(path, rate, **sounds):
    """Writes the spectrograms of sounds [n] at `rate`, by their titles."""
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt
    fig, axes = plt.subplots(len(sounds), 1, figsize=(8, 2 * len(sounds)), sharex=True, layout='constrained')
    for ax, (title, x) in zip(axes, sounds.items()):
        ax.specgram(x + 1e-9, NFFT=512, noverlap=384, Fs=rate, vmin=-140, vmax=-40)
        ax.set(title=title, ylabel='Hz')
    fig.savefig(path)
    plt.close(fig)


def main():
    ap = argparse.ArgumentParser(description='Score enhanced audio.')
    ap.add_argument('pairs')
    ap.add_argument('enhanced',
                    help='a folder; or a table of it; or `noisy`, `clean` (the pairs themselves) or `gate`')
    ap.add_argument('--delay', type=int, default=0, help='samples at 48 kHz by which the tool delays')
    ap.add_argument('--dnsmos', action='store_true')
    ap.add_argument('--distillmos', action='store_true')
    ap.add_argument('--jobs', type=int, default=1, help='processes; OMP_NUM_THREADS=1 keeps each to one thread')
    ap.add_argument('--out', help='a table of every clip')
    ap.add_argument('--against', help='such a table, of another folder')
    ap.add_argument('--pictures', help='a folder for spectrograms of the worst clips')
    ap.add_argument('--of', nargs='+', metavar='NAME', help='spectrograms of these clips instead')
    a = ap.parse_args()
    pairs = read_table(os.path.join(a.pairs, 'pairs.tsv'))
    names = {p['name'] for p in pairs}
    if unknown := set(a.of or ()) - names:
        ap.error(f"no such clip in {a.pairs}: {', '.join(sorted(unknown))}")
    tables = {path: read_table(path) for path in (a.enhanced, a.against) if path
              and (path == a.against or os.path.isfile(path))}
    for path, of in tables.items():
        if names != {r['name'] for r in of}:
            ap.error(f'{path}: not of the clips of {a.pairs}')
    if a.enhanced in tables:
        rows = tables[a.enhanced]
    else:
        with ProcessPoolExecutor(a.jobs) as pool:
            rows = list(pool.map(partial(score, a), pairs))
    keys = [k for k in KEYS if k in rows[0]]
    table(groups(rows), keys)
    by_name = {r['name']: r for r in rows}
    if a.against:
        others = {r['name']: r for r in tables[a.against]}
        both = [k for k in keys if k in tables[a.against][0]]
        print(f'\nover {a.against}, each clip against itself:')
        table(groups(differences([(r, others[r['name']]) for r in rows], both)), both)
    worst = sorted((r for r in rows if r['pesq'] == r['pesq']), key=lambda r: r['pesq'])[:5]
    print('\nworst by pesq:')
    for r in worst:
        print(' ', r['name'], r['snr_db'], 'dB', f"pesq {r['pesq']:.2f}, SI-SDR {r['si_sdr']:.1f} dB,",
              r.get('speech', ''), r.get('noise', ''))
    if a.pictures:
        os.makedirs(a.pictures, exist_ok=True)
        for name in a.of or [r['name'] for r in worst]:
            rate, clean, noisy, y = sounds(a, by_name[name])
            picture(os.path.join(a.pictures, name + '.png'), rate, noisy=noisy, enhanced=y, clean=clean)
    if a.out:
        with open(a.out, 'w', newline='') as f:
            w = csv.DictWriter(f, rows[0], delimiter='\t')
            w.writeheader()
            w.writerows(rows)


if __name__ == '__main__':
    main()
