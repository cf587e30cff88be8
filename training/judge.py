"""Pairs to judge networks by: python3 judge.py RECORDINGS ROOMS FLOORS OUT [--count N] [--seed N]

RECORDINGS holds speech/SOURCE/SPEAKER/FILE and noise/SOURCE/FOLDER/FILE, of which training has heard nothing.
ROOMS.flac holds responses of 24000 samples at 48 kHz and ROOMS.tsv their source and place; FLOORS.opus what microphones
add in pauses and FLOORS.tsv where each clip lies (start_sample, samples, rate, source, clip). Of both only what
prepare.for_judging() names is used.

OUT gets a folder of pairs that evaluate.py reads: N of 48 kHz (full) and N of 16 kHz (wide), 5.5 s to be scored in
each, at -5 to 25 dB. Every second one is `cold` and begins with these, every second one `warm`: 10 s of the same voice,
noise and room come first. A third of the cold ones are there in the warm form as well, from which evaluate.py tells
what a cold start costs. The same folders and seed make the same files, bit for bit.

Two thirds of the speech are in a room: the clean file has what arrives within 50 ms of its first sound, the rest must
go as noise must. A voice whose own background is less than 5 dB below the noise to be added is passed over.
"""
import argparse
import csv
import os
import re
from functools import cache

import numpy as np
import soundfile
from scipy.signal import fftconvolve, resample_poly

from prepare import RATE, for_judging, level

BEFORE, SCORED = 10 * RATE, 11 * RATE // 2
ROOM, EARLY, FADE = RATE // 2, RATE // 20, RATE // 100
SNRS = -5, 0, 5, 10, 15, 20, 25
FLOOR_SNR = 10                                          # what a microphone adds is this far below speech, or farther
BACKGROUND = 5                                          # dB from the noise down to a recording's own
WORD, NOISE = RATE, 3 * RATE // 2                       # the least that is used of an utterance and of a noise
FULL_SPEECH, FULL_NOISE = 22050, 44100                  # the least rates of what a pair of 48 kHz is made of
VOICE = re.compile(r'Baby \d+')                         # where one folder has several voices, and file names tell them
PREFIX, PART = re.compile(r'^[0-9a-f]{6}_'), re.compile(r'(-[A-Z]-\d+|_\d+)$')


def stem(path):
    """A file's name without its ending and without a prefix of six hexadecimal digits."""
    return PREFIX.sub('', os.path.splitext(os.path.basename(path))[0])


def files(folder, key):
    """-> {source: {key of a path: (path, ...)}}, in the order of the files' names"""
    found = {}
    for source in sorted(os.listdir(folder)):
        names = found[source] = {}
        paths = [os.path.join(d, n) for d, _, files in os.walk(os.path.join(folder, source)) for n in files]
        for p in sorted(paths, key=lambda p: (stem(p), p)):
            names[key(p)] = names.get(key(p), ()) + (p,)
    return found


@cache
def rate(path):
    """Hz."""
    return 16000 if path.endswith('.sln16') else soundfile.info(path).samplerate


def read(path):
    """-> samples at 48 kHz, of several channels the first"""
    x = np.fromfile(path, '<i2') / 32768 if path.endswith('.sln16') else soundfile.read(path, always_2d=True)[0][:, 0]
    common = np.gcd(RATE, rate(path))
    return resample_poly(x, RATE // common, rate(path) // common)


def power(x):
    """Mean squares of x [n] at 48 kHz in frames of 20 ms: [n // 960]."""
    return (x[:len(x) // 960 * 960].reshape(-1, 960) ** 2).mean(1) + 1e-14


def trim(x):
    """Without the silence around it but for 50 ms."""
    loud = np.flatnonzero(power(x) > 1e-3 * power(x).max())
    return x[max(0, loud[0] * 960 - 2400):loud[-1] * 960 + 3360]


@cache
def voice(paths):
    """-> utterances of one level, and how far its background is below them, in dB"""
    whole = [x / level(x) for x in map(read, paths) if len(x) >= WORD and x.any()]
    words = [x for x in map(trim, whole) if len(x) >= WORD]
    return words, -10 * np.log10(np.quantile(np.concatenate([power(x) for x in whole]), .05)) if words else -np.inf


@cache
def noise(paths):
    """The recordings, one after the other, at 48 kHz."""
    return np.concatenate([read(p) for p in paths])


def read_rooms(path):
    """-> {source/place: [response]}"""
    places = {}
    with open(path + '.tsv') as f:
        for r, h in zip(csv.DictReader(f, delimiter='\t'), soundfile.read(path + '.flac')[0].reshape(-1, ROOM),
                        strict=True):
            places.setdefault(f"{r['source']}/{r['place']}", []).append(h)
    return {name: h for name, h in places.items() if for_judging(name)}


def read_floors(path):
    """-> {source/clip: samples at 48 kHz}"""
    floors = {}
    with open(path + '.tsv') as table, soundfile.SoundFile(path + '.opus') as f:
        for r in csv.DictReader(table, delimiter='\t'):
            name, per = f"{r['source']}/{r['clip']}", f.samplerate // int(r['rate'])
            if r['source'].startswith('floor') and for_judging(name):
                f.seek(int(r['start_sample']) * per)
                floors[name] = resample_poly(f.read(int(r['samples']) * per), RATE // f.samplerate, 1)
    return floors


def voice_for(voices, first, least, rng):
    """-> source, name and utterances of a voice whose background is low enough, of the `first` source or of the next
    that has one"""
    sources = sorted(voices)
    for k in range(len(sources)):
        source = sources[(first + k) % len(sources)]
        names = list(voices[source])
        for i in rng.permutation(len(names)):
            words, background = voice(voices[source][names[i]])
            if background >= least:
                return source, names[i], words
    raise SystemExit(f'judge.py: no voice has a background of {least} dB below it')


def noise_for(noises, rng):
    """-> source, name: a source the oftener the more recordings it has, with their square root"""
    sources = sorted(noises)
    share = np.sqrt([len(noises[s]) for s in sources])
    source = sources[rng.choice(len(sources), p=share / share.sum())]
    return source, list(noises[source])[rng.integers(len(noises[source]))]


def spoken(words, samples, pause, rng):
    """Utterances in any order, seconds of `pause` before the first."""
    parts, n = [np.zeros(int(pause * RATE))], int(pause * RATE)
    while n < samples:
        parts += [words[rng.integers(len(words))], np.zeros(int(rng.uniform(.2, .9) * RATE))]
        n += len(parts[-2]) + len(parts[-1])
    x = np.concatenate(parts)[:samples]
    x[-FADE:] *= np.linspace(1, 0, FADE)
    return x


def lasting(x, samples, rng):
    """[samples] from anywhere in x, which is repeated with crossfades if it is shorter; prefers a part whose end is not
    silent."""
    fade = np.linspace(0, 1, FADE)
    while len(x) < samples:
        x = np.concatenate([x[:-FADE], x[-FADE:] * fade[::-1] + x[:FADE] * fade, x[FADE:]])
    for _ in range(20):
        start = rng.integers(len(x) - samples + 1)
        part = x[start:start + samples]
        if part[-SCORED:].std() > .5 * x.std():
            break
    return part


def in_room(x, h):
    """-> x in a room, and what of it arrives early"""
    h = h / np.sqrt((h[:EARLY] ** 2).sum())
    early = h * np.clip((EARLY + FADE - np.arange(ROOM)) / FADE, 0, 1)
    return fftconvolve(x, h)[:len(x)], fftconvolve(x, early)[:len(x)]


def mixed(words, x, h, snr_db, rng):
    """-> [2, samples]: clean and noisy. The part to be scored comes last and sets SNR and level."""
    s = np.concatenate([spoken(words, BEFORE, 0, rng), spoken(words, SCORED, rng.uniform(.3, 1), rng)])
    s, clean = (s, s) if h is None else in_room(s, h)
    x = lasting(x, BEFORE + SCORED, rng)
    loud = level(s[-SCORED:])
    both = np.stack([clean, s + x / x[-SCORED:].std() * loud * 10 ** (-snr_db / 20)])
    both = both / loud * 10 ** (rng.uniform(-38, -16) / 20)
    return both * min(1, .98 / np.abs(both).max())


def main():
    ap = argparse.ArgumentParser(description='Pairs to judge networks by.')
    ap.add_argument('recordings')
    ap.add_argument('rooms', help='path of .flac and .tsv, without these')
    ap.add_argument('floors', help='path of .opus and .tsv, without these')
    ap.add_argument('out')
    ap.add_argument('--count', type=int, default=102, help='of each band')
    ap.add_argument('--seed', type=int, default=0)
    a = ap.parse_args()
    speech = files(os.path.join(a.recordings, 'speech'), lambda p: (m := VOICE.search(p)) and m[0]
                   or os.path.basename(os.path.dirname(p)))
    recorded = files(os.path.join(a.recordings, 'noise'), lambda p: PART.sub('', stem(p)))
    rooms, floors = read_rooms(a.rooms), read_floors(a.floors)
    some = lambda of, good: {s: kept for s, names in of.items()
                             if (kept := {n: p for n, p in names.items() if good(p)})}
    lasts = lambda paths: sum(soundfile.info(p).duration for p in paths) * RATE >= NOISE
    bands = {'full': (RATE, some(speech, lambda p: rate(p[0]) >= FULL_SPEECH),
                      some(recorded, lambda p: lasts(p) and rate(p[0]) >= FULL_NOISE)),
             'wide': (16000, some(speech, lambda p: rate(p[0]) <= FULL_SPEECH), some(recorded, lasts))}
    os.makedirs(a.out, exist_ok=True)
    with open(os.path.join(a.out, 'pairs.tsv'), 'w') as table:
        print('name', 'rate', 'snr_db', 'start', 'speech', 'noise', 'room', sep='\t', file=table)
        for band, (out_rate, voices, noises) in bands.items():
            for i in range(a.count):
                rng, snr_db = np.random.default_rng([a.seed, out_rate, i]), SNRS[i % len(SNRS)]
                speaker, of_speaker, words = voice_for(voices, i // 2, snr_db + BACKGROUND, rng)
                source, name = noise_for(noises | {'floor': floors} if band == 'wide' and snr_db >= FLOOR_SNR
                                         else noises, rng)
                x = floors[name] if source == 'floor' else noise(noises[source][name])
                place = sorted(rooms)[rng.integers(len(rooms))] if rng.random() < 2 / 3 else ''
                h = rooms[place][rng.integers(len(rooms[place]))] if place else None
                both = resample_poly(mixed(words, x, h, snr_db, rng), 1, RATE // out_rate, axis=1)
                for form in ('warm',) if i % 2 else ('cold', 'warm') if i % 6 == 0 else ('cold',):
                    start = BEFORE * out_rate // RATE if form == 'warm' else 0
                    clip = f'{band}-{form}_{i:03}'
                    for part, y in zip(('clean', 'noisy'), both[:, BEFORE * out_rate // RATE - start:]):
                        soundfile.write(os.path.join(a.out, f'{clip}_{part}.flac'), y, out_rate)
                    print(clip, out_rate, snr_db, start, f'{speaker}/{of_speaker}', f'{source}/{name}', place, sep='\t',
                          file=table)


if __name__ == '__main__':
    main()
