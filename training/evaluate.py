"""Score enhanced audio: python3 evaluate.py PAIRS ENHANCED [--delay N] [--dnsmos] [--out FILE.tsv] [--pictures DIR]

PAIRS holds pairs.tsv (name, rate, snr_db, ...) and NAME_clean.flac, NAME_noisy.flac; ENHANCED, made by any tool, NAME_noisy.* or
NAME.* of the same rate. Scores: WB-PESQ and ESTOI at 16 kHz, SI-SDR at the file's rate, the level left in pauses, and with --dnsmos
DNSMOS P.835. Means are given for the wide and the full-band pairs, with 95 % intervals, and by SNR; then the worst clips.
A pause is made of the 20 ms frames whose clean level is 30 dB under the median speech frame; its level is that of the output over
that of the input there, in decibels, for the first second and what follows. Where the clean file itself is louder than -35 dB
against the input, `spare` counts from there: decibels over the larger of the two, zero or less is met.
"""
import argparse
import csv
import glob
import os

import numpy as np
import soundfile
from pesq import pesq
from pystoi import stoi
from scipy.signal import resample_poly

TARGET_DB = -35.
DNSMOS = 'OVRL', 'SIG', 'BAK'


def si_sdr(clean, y):
    clean, y = clean - clean.mean(), y - y.mean()
    s = clean * (clean @ y) / (clean @ clean)
    return 10 * np.log10((s @ s) / ((y - s) @ (y - s)))


def frame_power(x, rate):
    n = rate // 50
    return (x[:len(x) // n * n].reshape(-1, n) ** 2).mean(1) + 1e-12


def pauses(clean, noisy, y, rate):
    """-> {pause_first, pause_later, spare_first, spare_later}, in dB; nan where there is no such frame."""
    c, m, e = (frame_power(x, rate) for x in (clean, noisy, y))
    speech = c > 1e-3 * c.max()
    quiet = c < 1e-3 * np.median(c[speech])
    scores = {}
    for key, part in ('first', slice(0, 50)), ('later', slice(50, None)):
        q = quiet[part]
        level = lambda p: 10 * np.log10(p[part][q].mean() / m[part][q].mean()) if q.any() else np.nan
        scores['pause_' + key] = level(e)
        scores['spare_' + key] = level(e) - max(TARGET_DB, level(c)) if q.any() else np.nan
    return scores


def score(clean, noisy, y, rate, dnsmos):
    c, e = (x if rate == 16000 else resample_poly(x, 16000, rate) for x in (clean, y))
    scores = dict(pesq=pesq(16000, c, e, 'wb'), estoi=stoi(c, e, 16000, extended=True), si_sdr=si_sdr(clean, y), **pauses(clean, noisy, y, rate))
    if dnsmos:
        r = dnsmos.run(np.clip(e, -1, 1).astype(np.float32), sr=16000)
        scores |= {k: float(r[k.lower() + '_mos']) for k in DNSMOS}
    return scores


def read_enhanced(folder, name, like, delay):
    """The file of this name, aligned and cut or filled to the length of `like`."""
    path = (glob.glob(os.path.join(folder, name + '_noisy.*')) + glob.glob(os.path.join(folder, name + '.*')))[0]
    y = soundfile.read(path)[0][delay:]
    return np.pad(y, (0, max(0, len(like) - len(y))))[:len(like)]


def line(title, rows, keys):
    cells = []
    for k in keys:
        v = np.array([r[k] for r in rows])
        v = v[~np.isnan(v)]
        if k.startswith(('pause', 'spare')):
            cells.append(f'{np.median(v):7.1f}' if len(v) else '      -')
        else:
            cells.append(f'{v.mean():.3f}±{1.96 * v.std() / len(v) ** .5:.3f}')
    print(f'{title:12}{len(rows):4}  ' + '  '.join(f'{c:>12}' for c in cells))


def picture(path, rate, **sounds):
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt
    fig, axes = plt.subplots(len(sounds), 1, figsize=(10, 2.5 * len(sounds)), sharex=True, layout='constrained')
    for ax, (title, x) in zip(axes, sounds.items()):
        ax.specgram(x + 1e-9, NFFT=512, noverlap=384, Fs=rate, vmin=-140, vmax=-40)
        ax.set(title=title, ylabel='Hz')
    fig.savefig(path)
    plt.close(fig)


def main():
    ap = argparse.ArgumentParser(description='Score enhanced audio.')
    ap.add_argument('pairs')
    ap.add_argument('enhanced', help='a folder, or `noisy` or `clean` for the pairs themselves')
    ap.add_argument('--delay', type=int, default=0, help='samples at 48 kHz by which the tool delays')
    ap.add_argument('--dnsmos', action='store_true')
    ap.add_argument('--out', help='a table of every clip')
    ap.add_argument('--pictures', help='a folder for spectrograms of the worst clips')
    a = ap.parse_args()
    if a.dnsmos:
        from speechmos import dnsmos
    with open(os.path.join(a.pairs, 'pairs.tsv')) as f:
        pairs = list(csv.DictReader(f, delimiter='\t'))
    rows, sounds = [], {}
    for p in pairs:
        clean, noisy = (soundfile.read(os.path.join(a.pairs, f"{p['name']}_{k}.flac"))[0] for k in ('clean', 'noisy'))
        rate = int(p['rate'])
        y = dict(clean=clean, noisy=noisy)[a.enhanced] if a.enhanced in ('clean', 'noisy') else read_enhanced(a.enhanced, p['name'], clean, a.delay * rate // 48000)
        rows.append(p | score(clean, noisy, y, rate, a.dnsmos and dnsmos))
        sounds[p['name']] = rate, clean, noisy, y
    keys = [k for k in rows[0] if k not in pairs[0]]
    print(f"{'':16}  " + '  '.join(f'{k:>12}' for k in keys))
    for kind in sorted({r['name'].split('_')[0] for r in rows}, reverse=True):
        of_kind = [r for r in rows if r['name'].startswith(kind)]
        line(kind, of_kind, keys)
        for snr in sorted({float(r['snr_db']) for r in of_kind}):
            line(f'  {snr:g} dB', [r for r in of_kind if float(r['snr_db']) == snr], keys)
    worst = sorted(rows, key=lambda r: r['pesq'])[:5]
    print('worst by pesq:')
    for r in worst:
        print(' ', r['name'], r['snr_db'], 'dB', f"pesq {r['pesq']:.2f}, SI-SDR {r['si_sdr']:.1f} dB,", r.get('speech', ''), r.get('noise', ''))
        if a.pictures:
            os.makedirs(a.pictures, exist_ok=True)
            rate, clean, noisy, y = sounds[r['name']]
            picture(os.path.join(a.pictures, r['name'] + '.png'), rate, noisy=noisy, enhanced=y, clean=clean)
    if a.out:
        with open(a.out, 'w', newline='') as f:
            w = csv.DictWriter(f, rows[0], delimiter='\t')
            w.writeheader()
            w.writerows(rows)


if __name__ == '__main__':
    main()
