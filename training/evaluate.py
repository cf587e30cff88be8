"""Score enhanced audio: python3 evaluate.py PAIRS ENHANCED [--delay N] [--dnsmos] [--out FILE.tsv] [--pictures DIR [--of NAME...]]

PAIRS holds pairs.tsv (name, rate, snr_db, ...) and NAME_clean.flac, NAME_noisy.flac; ENHANCED, made by any tool, NAME_noisy.* or
NAME.* of the same rate. Where the table has a column `start`, so many samples at the beginning are not scored. The first part of
a name is its kind. Means are given for each kind, with 95 % intervals, and by SNR (for levels in decibels medians, without); then
the worst clips. What a clip has no place for is left out of the mean:
pesq, estoi     WB-PESQ and ESTOI at 16 kHz; of files at 8 kHz the narrow-band PESQ; of silence PESQ is 1
si_sdr          at the file's rate; of silence none
pause_first, pause_later   what is left in pauses, in dB: output over input in the 20 ms frames whose clean level is 30 dB under the
                median speech frame, in the first second and after it
spare_first, spare_later   the same over -35 dB or, where the clean file is louder there, over its level: zero or less is met
left            output over input where the clean file is silent from end to end
onset           how much louder speech comes through in the 100 ms after a pause than elsewhere, in dB: negative where words are cut
lsd             distance of log spectra above 8 kHz, in dB, of files at 48 kHz
OVRL, SIG, BAK  DNSMOS P.835, with --dnsmos
"""
import argparse
import csv
import glob
import os

import numpy as np
import soundfile
from pesq import pesq
from pystoi import stoi
from scipy.ndimage import maximum_filter1d
from scipy.signal import resample_poly, stft

TARGET_DB = -35.
SCORES = 'pesq', 'estoi', 'si_sdr', 'pause_first', 'pause_later', 'spare_first', 'spare_later', 'left', 'onset', 'lsd'
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


def onset(clean, y, rate):
    """Speech in y is what of it is like the clean file, so that noise on top does not count."""
    n = rate // 50
    c, e = (x[:len(x) // n * n].reshape(-1, n) for x in (clean, y))
    power = (c ** 2).mean(1) + 1e-12
    usual = np.median(power[power > 1e-3 * power.max()])
    loud = power > 1e-3 * usual
    starts = [i for i in range(5, len(loud) - 5) if loud[i] and not loud[i - 5:i].any() and power[i:i + 5].mean() > .03 * usual]
    first = np.zeros_like(loud)
    for i in starts:
        first[i:i + 5] = True
    passed = lambda at: 20 * np.log10(max(1e-3, (c[at] * e[at]).sum() / (c[at] ** 2).sum()))
    rest = loud & ~first
    return np.mean([passed(slice(i, i + 5)) for i in starts]) - passed(rest) if starts and rest.any() else np.nan


def lsd(clean, y):
    """Of files at 48 kHz, above 8 kHz; what lies 60 dB under the clean file's loudest is silence."""
    power = lambda x: np.abs(stft(x, 48000, nperseg=1024, noverlap=768)[2][171:]) ** 2
    c, e = power(clean), power(y)
    least = 1e-6 * c.max()
    return np.sqrt(((10 * np.log10((c + least) / (e + least))) ** 2).mean(0)).mean()


def gate(noisy, rate):
    """A plain energy gate, to compare with: 10 ms frames less than 6 dB over the quiet ones are turned down by 30 dB."""
    n = rate // 100
    e = (np.resize(noisy, -(-len(noisy) // n) * n).reshape(-1, n) ** 2).mean(1)
    open_ = maximum_filter1d((e > 4 * np.quantile(e, .1)).astype(float), 11)
    return noisy * np.repeat(.03 + .97 * open_, n)[:len(noisy)]


def score(clean, noisy, y, rate, dnsmos):
    at16, out16 = (x if rate == 16000 else resample_poly(x, 16000, rate) for x in (clean, y))
    scores = dict.fromkeys(SCORES, np.nan)
    if clean.any():
        if y.any():
            scores |= dict(pesq=pesq(8000, clean, y, 'nb') if rate == 8000 else pesq(16000, at16, out16, 'wb'), si_sdr=si_sdr(clean, y))
        else:                                           # of silence neither can be computed
            scores['pesq'] = 1.
        scores |= dict(estoi=stoi(at16, out16, 16000, extended=True), onset=onset(clean, y, rate))
        scores |= pauses(clean, noisy, y, rate)
        if rate == 48000:
            scores['lsd'] = lsd(clean, y)
    else:
        scores['left'] = 10 * np.log10((y ** 2).sum() / (noisy ** 2).sum() + 1e-12)
    if dnsmos:
        r = dnsmos.run(np.clip(out16, -1, 1).astype(np.float32), sr=16000)
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
        if not len(v):
            cells.append('-')
        elif k.startswith(('pause', 'spare', 'left')):
            cells.append(f'{np.median(v):.1f}')
        else:
            cells.append(f'{v.mean():.3f}±{1.96 * v.std() / len(v) ** .5:.3f}')
    print(f'{title:12}{len(rows):4}  ' + '  '.join(f'{c:>12}' for c in cells))


def picture(path, rate, **sounds):
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
    ap.add_argument('enhanced', help='a folder; or `noisy` or `clean` for the pairs themselves, `gate` for an energy gate')
    ap.add_argument('--delay', type=int, default=0, help='samples at 48 kHz by which the tool delays')
    ap.add_argument('--dnsmos', action='store_true')
    ap.add_argument('--out', help='a table of every clip')
    ap.add_argument('--pictures', help='a folder for spectrograms of the worst clips')
    ap.add_argument('--of', nargs='+', metavar='NAME', help='spectrograms of these clips instead')
    a = ap.parse_args()
    if a.dnsmos:
        from speechmos import dnsmos
    with open(os.path.join(a.pairs, 'pairs.tsv')) as f:
        pairs = list(csv.DictReader(f, delimiter='\t'))
    if unknown := set(a.of or ()) - {p['name'] for p in pairs}:
        ap.error(f"no such clip in {f.name}: {', '.join(sorted(unknown))}")
    rows, sounds = [], {}
    for p in pairs:
        clean, noisy = (soundfile.read(os.path.join(a.pairs, f"{p['name']}_{k}.flac"))[0] for k in ('clean', 'noisy'))
        rate = int(p['rate'])
        plain = dict(clean=lambda: clean, noisy=lambda: noisy, gate=lambda: gate(noisy, rate))
        y = plain[a.enhanced]() if a.enhanced in plain else read_enhanced(a.enhanced, p['name'], clean, a.delay * rate // 48000)
        clean, noisy, y = (x[int(p.get('start', 0)):] for x in (clean, noisy, y))
        rows.append(p | score(clean, noisy, y, rate, a.dnsmos and dnsmos))
        sounds[p['name']] = rate, clean, noisy, y
    keys = [k for k in rows[0] if k not in pairs[0]]
    print(f"{'':16}  " + '  '.join(f'{k:>12}' for k in keys))
    for kind in sorted({r['name'].split('_')[0] for r in rows}, reverse=True):
        of_kind = [r for r in rows if r['name'].split('_')[0] == kind]
        line(kind, of_kind, keys)
        for snr in sorted({float(r['snr_db']) for r in of_kind}):
            line(f'  {snr:g} dB', [r for r in of_kind if float(r['snr_db']) == snr], keys)
    worst = sorted((r for r in rows if r['pesq'] == r['pesq']), key=lambda r: r['pesq'])[:5]
    print('worst by pesq:')
    for r in worst:
        print(' ', r['name'], r['snr_db'], 'dB', f"pesq {r['pesq']:.2f}, SI-SDR {r['si_sdr']:.1f} dB,", r.get('speech', ''), r.get('noise', ''))
    if a.pictures:
        os.makedirs(a.pictures, exist_ok=True)
        for name in a.of or [r['name'] for r in worst]:
            rate, clean, noisy, y = sounds[name]
            picture(os.path.join(a.pictures, name + '.png'), rate, noisy=noisy, enhanced=y, clean=clean)
    if a.out:
        with open(a.out, 'w', newline='') as f:
            w = csv.DictWriter(f, rows[0], delimiter='\t')
            w.writeheader()
            w.writerows(rows)


if __name__ == '__main__':
    main()
