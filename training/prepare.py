"""Pack training audio: python3 prepare.py DATA OUT [--spoken REGEX] [--often REGEX] [--more DATA]

DATA holds index.tsv (file, start_sample, samples, rate, source, speaker_or_clip), the files it names (speech_full*: full band,
speech_wide*: nothing above 8 kHz, noise*), and rooms_full.flac, rooms_wide.flac: room responses of half a second, one after the
other. OUT gets the same audio as raw 16-bit mono at 48 kHz for train.py, without the narrators and noise clips that a hash
of their names holds out, without noise clips whose names say that they are speech (a network that hears those learns to remove
speech), and OUT/dev: noisy and clean pairs made of what is held out, for choosing between checkpoints. Of what --more adds
nothing is held out, so that the pairs stay the same.
"""
import argparse
import csv
import hashlib
import os
import re
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import soundfile
from scipy.signal import resample_poly

RATE = 48000
PIECE = 600                                            # seconds decoded at a time
MARGIN = 1000                                          # samples around a piece that feed the resampler's edges
HELD_MINUTES = {'speech': 5, 'noise': 2}               # what is longer is too much to lose
SNRS = -2.5, 2.5, 7.5, 12.5, 17.5


def decode(job):
    path, start, stop = job
    with soundfile.SoundFile(path) as f:
        low = max(0, start - MARGIN)
        f.seek(low)
        x = f.read(min(stop + MARGIN, f.frames) - low, dtype='float32')
        up = RATE // f.samplerate
    if up > 1:
        x = resample_poly(x, up, 1).astype(np.float32)
    x = x[(start - low) * up:(stop - low) * up]
    return np.clip(x * 32768, -32768, 32767).astype(np.int16)


def pieces(path):
    with soundfile.SoundFile(path) as f:
        n, step = f.frames, PIECE * f.samplerate
    return [(path, i, min(i + step, n)) for i in range(0, n, step)]


def held_out(kind, segments):
    """One name in sixteen, chosen by a hash, of those with little audio."""
    total = {}
    for s in segments:
        total[s['name']] = total.get(s['name'], 0) + (s['stop'] - s['start']) / RATE / 60
    return {n for n, minutes in total.items() if minutes < HELD_MINUTES[kind] and hashlib.md5(n.encode()).digest()[0] % 16 == 0}


def for_judging(name):
    """One real room or floor of a microphone in six (SOURCE/PLACE, SOURCE/CLIP), chosen by a hash: judge.py has these, training must not."""
    return hashlib.md5(name.encode()).digest()[0] % 6 == 0


def read_index(data):
    """-> {'speech_full': [segment], ...}; a segment lasts until the next one starts, positions at 48 kHz in the joined files."""
    packs, offset = {}, {}
    with open(os.path.join(data, 'index.tsv')) as f:
        rows = list(csv.DictReader(f, delimiter='\t'))
    for r in rows:
        pack = r['file'].rsplit('_', 1)[0]
        segments = packs.setdefault(pack, [])
        if r['file'] not in offset:
            offset[r['file']] = sum(soundfile.info(os.path.join(data, f)).frames * RATE // soundfile.info(os.path.join(data, f)).samplerate
                                    for f in offset if f.rsplit('_', 1)[0] == pack)
        start = offset[r['file']] + int(r['start_sample']) * RATE // int(r['rate'])
        if segments:
            segments[-1]['stop'] = start
        segments.append(dict(start=start, stop=start + int(r['samples']) * RATE // int(r['rate']), name=r['source'] + '/' + r['speaker_or_clip']))
    return packs, list(offset)


def decoded(data, files, pack, jobs):
    """The joined samples of a pack's files, [n] int16 at 48 kHz."""
    with ProcessPoolExecutor(jobs) as pool:
        return np.concatenate(list(pool.map(decode, [j for f in files if f.startswith(pack) for j in pieces(os.path.join(data, f))])))


def level(x):
    """RMS of the active part: 20 ms frames within 20 dB of the loudest."""
    e = (x[:len(x) // 960 * 960].reshape(-1, 960) ** 2).mean(1)
    return np.sqrt(e[e > .01 * e.max()].mean())


def dev_pairs(voices, noises, out, count=24):
    """Pairs of about five seconds: pauses before the first word and between words, each SNR in turn.

    voices: {'full': {name: [clip]}, 'wide': ...}, noises: [(name, clip)].
    """
    rng = np.random.default_rng(0)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, 'pairs.tsv'), 'w') as table:
        print('name', 'rate', 'snr_db', 'speech', 'noise', sep='\t', file=table)
        for kind, by_name in voices.items():
            names = sorted(by_name)
            for i in range(count if names else 0):
                name = names[i % len(names)]
                clean = [np.zeros(int(RATE * rng.uniform(.3, 1.2)))]
                while sum(map(len, clean)) < 5 * RATE:
                    clean += [by_name[name][rng.integers(len(by_name[name]))] / 32768, np.zeros(int(RATE * rng.uniform(.1, .9)))]
                clean = np.concatenate(clean)[:6 * RATE]
                noise_name, noise = noises[rng.integers(len(noises))]
                noise = np.resize(noise, len(clean)) / 32768
                snr = SNRS[i % len(SNRS)]
                noise = noise / (np.sqrt((noise ** 2).mean()) + 1e-6) * level(clean) * 10 ** (-snr / 20)
                pair = np.stack([clean, clean + noise])
                pair *= min(1, .98 / np.abs(pair).max())
                rate = 16000 if kind == 'wide' else RATE
                for part, x in zip(('clean', 'noisy'), pair):
                    soundfile.write(os.path.join(out, f'{kind}_{i:02}_{part}.flac'), resample_poly(x, 1, RATE // rate), rate)
                print(f'{kind}_{i:02}', rate, snr, name, noise_name, sep='\t', file=table)


def main():
    ap = argparse.ArgumentParser(description='Pack training audio.')
    ap.add_argument('data')
    ap.add_argument('out')
    ap.add_argument('--spoken', default='$^', help='names of noise clips to leave out of the packed noise')
    ap.add_argument('--often', default='$^', help='names of speech to pack three times, so that training hears it as often')
    ap.add_argument('--more', help='another DATA, for training alone')
    ap.add_argument('--jobs', type=int, default=os.cpu_count())
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    packs, files = read_index(a.data)
    more, more_files = read_index(a.more) if a.more else ({}, [])
    if strange := sorted(more.keys() - packs.keys()):
        ap.error(f"{a.more}: {', '.join(strange)}: not in {a.data}, so nothing to add to")
    voices, noises = {}, []
    for pack, segments in packs.items():
        x = decoded(a.data, files, pack, a.jobs)
        kind, _, band = pack.partition('_')
        held = held_out(kind, segments)
        parts = [(x, segments, held)]
        if pack in more:
            parts.append((decoded(a.more, more_files, pack, a.jobs), more[pack], ()))
        for s in segments:
            if s['name'] not in held:
                continue
            if kind == 'noise' and s['stop'] - s['start'] > 2 * RATE:
                noises.append((s['name'], x[s['start']:s['stop']]))
            elif kind == 'speech':
                voices.setdefault(band, {}).setdefault(s['name'], []).append(x[s['start']:s['stop']])
        with open(os.path.join(a.out, pack + '.i16'), 'wb') as f:
            for y, of, out in parts:
                for s in of:
                    if s['name'] not in out and not (kind == 'noise' and re.search(a.spoken, s['name'])):
                        times = 3 if kind == 'speech' and re.search(a.often, s['name']) else 1
                        np.tile(y[s['start']:s['stop']], times).tofile(f)
        print(f"{pack}: {sum(len(y) for y, _, _ in parts) / RATE / 3600:.2f} h, {len(held)} of {len({s['name'] for s in segments})} names held out")
    for band in 'full', 'wide':
        path = os.path.join(a.data, f'rooms_{band}.flac')
        if os.path.exists(path):
            soundfile.read(path, dtype='int16')[0].tofile(os.path.join(a.out, f'rooms_{band}.i16'))
    if voices and noises:
        dev_pairs(voices, noises, os.path.join(a.out, 'dev'))
    else:
        print('no development pairs: of so few names the hash holds out no', 'noise' if voices else 'voice')


if __name__ == '__main__':
    main()
