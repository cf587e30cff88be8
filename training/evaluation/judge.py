"""Pairs to judge networks by, of recordings that training has not heard:
python3 -m training.evaluation.judge ROOMS OUT RECORDINGS... [--count N] [--seed N]

RECORDINGS are folders of KIND/SOURCE/SPEAKER/FILE. Of these only what `SOURCES` names is used, and no voice that
training may have heard: of VCTK only speakers whose number is a multiple of four, elsewhere no speaker whom
recordings.tsv.xz names. ROOMS.flac holds responses of 24000 samples at 48 kHz,
ROOMS.tsv their source and place; only what prepare.for_judging() names is used.

OUT gets a folder of pairs that evaluate.py reads, N of each domain:

studio     a studio's sentences in everyday noise at 2.5 to 17.5 dB, after half a second of their own room tone
languages  sentences in many languages, by their speakers' own microphones, in everyday noise at -5 to 10 dB
far        a voice across a measured room, in everyday noise at 5 to 20 dB; what comes later than 50 ms is to go
events     typing, mouse, knocks, rustle, dishes and a chair, only where nobody speaks
faint      whispers, breath before words, speech at -45 dBFS, first words after a long pause; in quiet noise
voices     another talker across the room, six together, a crowd
coded      an 8 kHz headset, codecs at low rates, clipping
song       singing and laughter with little noise, speech over music
real       recordings as they are, without a clean file, for DNSMOS and Distill-MOS

A pair with an even number is `open`, for choosing; one with an odd number is `sealed`, to be scored only before a
network ships. `studio-warm` has some pairs of `studio` after eight seconds of the same voice and noise, from which
domains.py tells what a cold start costs. The same folders and seed make the same pairs.
"""
import argparse
import csv
import io
import lzma
import os
import re
import warnings
from functools import cache, lru_cache, partial

import numpy as np
import soundfile
from scipy.signal import butter, fftconvolve, istft, lfilter, resample_poly, sosfilt, sosfiltfilt, stft

from training.data.fetch import RECORDINGS, rows
from training.data.prepare import RATE, for_judging, level

ROOM, EARLY, FADE = RATE // 2, RATE // 20, RATE // 100
LONGEST = 6 * RATE                                      # of a sentence
BEFORE = 8 * RATE                                       # what a warm pair hears first
FULL = 32000                                            # Hz, the least rate of what a pair of 48 kHz is made of
BACKGROUND = 25                                         # dB that a clean recording's own background is below it
NOISY = 8, 25                                           # the same of a real one
PAUSES = 33                                             # the same where pauses are to be told by their level
TAKES = 60                                              # at most so many recordings of one speaker

REAL = 'noisy people', 'phones', 'field'
VCTK = re.compile(r'/vctk-p(\d+)/')
SPOKEN = 'announce|seller|kids|giggl|talk|band|anthem|children|playground|whistle|horn|siren'
SOURCES = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in {
    'studio': r'speech/(vctk[^/]*/vctk-p\d+|daps-[^/]*|marylux)/',
    'people': r'speech/(cv61-sample|cv-fa|cv-twi)/',
    'readers': r'speech/(librispeech-24k[^/]*|speechocean762)/',
    'crowd': r'voice/ambient-mixer/.*(office mult|distant chatter|pub|party|men talking)'
             r'|noise/ambient-mixer/.*(restaurant|coffee shop|food ?market|supper|caf.*kitchen|market \d)',
    'others': r'speech/(librispeech-24k[^/]*|hindi-100|berom)/',
    'everyday': rf'noise/(ambient-mixer|sefire)/(?!.*({SPOKEN}))',
    'kitchen': r'noise/kitchen20-own/',
    'keys': r'noise/keystrokes/',
    'dishes': r'noise/kitchen20-own/.*(couvert|assiette|vaisselle|tir+oir|placard)',
    'whispers': r'voice/ambient-mixer/.*(whispering|asmr|softly)',
    'breaths': r'voice/ambient-mixer/.*(breathing|breath)',
    'laughter': r'voice/ambient-mixer/.*(laugh)',
    'singing': r'(voice/sefire/|voice/ambient-mixer/.*(singing|humm|opera|lullaby)|speech/r9y9-singing)',
    'music': r'(music/sefire/|noise/musan-subset/.*music)',
    'phones': r'speech/(hindi-100|cherokee-walc)/',
    'noisy people': r'speech/cv[^/]*-noisy/',
    'field': r'speech/sefire/'}.items()}


@cache
def heard():
    """-> the speakers of which training has recordings"""
    with lzma.open(RECORDINGS, 'rt') as f:
        return {r['speaker'] for r in rows(f)}


def held_out(path):
    """Whether training has not heard this speaker."""
    number = VCTK.search(path)
    return int(number[1]) % 4 == 0 if number else os.path.basename(os.path.dirname(path)) not in heard()


def gather(folders):
    """-> {name in SOURCES: paths}"""
    found = [os.path.join(d, n) for folder in folders for d, _, names in os.walk(folder) for n in names]
    found.sort(key=lambda p: p.split('/')[-4:])
    return {name: [p for p in found if pattern.search(p) and held_out(p)] for name, pattern in SOURCES.items()}


@cache
def rate(path):
    """Hz."""
    return soundfile.info(path).samplerate


@lru_cache(100)
def read(path):
    """-> samples at 48 kHz, of several channels the first, at most a minute"""
    x = soundfile.read(path, frames=60 * rate(path), always_2d=True)[0][:, 0]
    common = np.gcd(RATE, rate(path))
    return resample_poly(x, RATE // common, rate(path) // common)


def power(x):
    """Mean squares of x [n] at 48 kHz in frames of 20 ms: [n // 960]."""
    return (x[:len(x) // 960 * 960].reshape(-1, 960) ** 2).mean(1) + 1e-14


@cache
def background(path):
    """dB, how far a recording's quietest twentieth is below its speech; -inf if it is too short or can't be read."""
    try:
        x = read(path)
    except soundfile.LibsndfileError:
        return -np.inf
    return -10 * np.log10(np.quantile(power(x / level(x)), .05)) if len(x) > RATE and x.any() else -np.inf


def shuffled(items, seed):
    return [items[i] for i in np.random.default_rng(seed).permutation(len(items))]


def turn(i, kinds):
    """-> the kind whose turn it is, the same for an open pair and the sealed one after it; how many it had before"""
    return kinds[i // 2 % len(kinds)], i // 2 // len(kinds) * 2 + i % 2


def by_speaker(paths, seed):
    """The paths so that each speaker comes once before any comes again."""
    speakers = {}
    for p in shuffled(paths, seed):
        speakers.setdefault(os.path.dirname(p), []).append(p)
    rounds = [(k, n) for n, of in enumerate(speakers.values()) for k in range(min(len(of), TAKES))]
    speakers = list(speakers.values())
    return [speakers[n][k] for k, n in sorted(rounds)]


def tone(x, samples, rng):
    """Noise like the quietest tenth of x: its room without the speaker."""
    spectrum = np.abs(stft(x, RATE, nperseg=2048)[2]) ** 2
    e = spectrum.sum(0)
    quiet = np.sqrt(spectrum[:, e <= np.quantile(e[e > 0], .1)].mean(1))
    white = stft(rng.standard_normal(samples + 4096), RATE, nperseg=2048)[2]
    white /= np.sqrt((np.abs(white) ** 2).mean())
    return istft(white * quiet[:, None], RATE, nperseg=2048)[1][2048:2048 + samples]


def sentence(path, pause, rng, longest=LONGEST):
    """A recording of level 1: so many seconds of its own beginning or of its room's tone, then speech."""
    x = read(path)
    x = x / level(x)
    loud = np.flatnonzero(power(x) > 1e-3 * power(x).max()) * 960
    pause, first = int(pause * RATE), max(0, loud[0] - 2400)
    x = x[max(0, first - pause):min(len(x), loud[-1] + 960 + 9600)]
    if first < pause:
        before = tone(read(path) / level(read(path)), pause - first + FADE, rng)
        x = joined([before, x])
    x = x[:longest].copy()
    x[-FADE:] *= np.linspace(1, 0, FADE)
    return x


def joined(parts):
    """One after the other, 10 ms of each faded into the next."""
    y, fade = parts[0], np.linspace(0, 1, FADE)
    for x in parts[1:]:
        y = np.concatenate([y[:-FADE], y[-FADE:] * fade[::-1] + x[:FADE] * fade, x[FADE:]])
    return y


def lasting(x, samples, rng):
    """[samples] from anywhere in x, which is repeated if it is shorter; prefers a part whose end is not silent."""
    while len(x) < samples:
        x = joined([x, x])
    for _ in range(20):
        start = rng.integers(len(x) - samples + 1)
        part = x[start:start + samples]
        if part[-4 * RATE:].std() > .5 * x.std():
            break
    return part


def read_rooms(path):
    """-> {source/place: [response]}"""
    places = {}
    with open(path + '.tsv') as f:
        for r, h in zip(csv.DictReader(f, delimiter='\t'), soundfile.read(path + '.flac')[0].reshape(-1, ROOM),
                        strict=True):
            places.setdefault(f"{r['source']}/{r['place']}", []).append(h)
    return {name: h for name, h in places.items() if for_judging(name)}


def distant(rooms):
    """-> [(place, response)]: those whose direct sound is no more than 6 dB over what follows it, the nearer half"""
    ratio = lambda h: 10 * np.log10((h[:RATE // 400] ** 2).sum() / (h[RATE // 400:] ** 2).sum())
    found = [(ratio(h), place, h) for place, responses in sorted(rooms.items()) for h in responses if ratio(h) < 6]
    found.sort(key=lambda f: -f[0])
    return [(place, h) for _, place, h in found[:max(8, len(found) // 2)]]


def in_room(x, h):
    """-> x in a room, and what of it arrives early"""
    h = h / np.sqrt((h[:EARLY] ** 2).sum())
    early = h * np.clip((EARLY + FADE - np.arange(ROOM)) / FADE, 0, 1)
    return fftconvolve(x, h)[:len(x)], fftconvolve(x, early)[:len(x)]


def at_snr(x, loud, snr_db):
    """Noise x as many dB below `loud`."""
    return x / (x.std() + 1e-9) * loud * 10 ** (-snr_db / 20)


def whispered(x, rng):
    """x without a voice: its envelope with noise for the source, turned down where its voice was loudest."""
    X = np.abs(stft(x, RATE, nperseg=1440)[2]) + 1e-6
    cepstrum = np.fft.irfft(np.log(X), axis=0)
    cepstrum[90:-90] = 0
    white = stft(rng.standard_normal(len(x)), RATE, nperseg=1440)[2]
    tilt = np.minimum(1, np.fft.rfftfreq(1440, 1 / RATE)[:, None] / 1500)
    y = istft(np.exp(np.fft.rfft(cepstrum, axis=0).real) * tilt * white[:, :X.shape[1]], RATE, nperseg=1440)[1]
    return np.pad(y, (0, max(0, len(x) - len(y))))[:len(x)]


def ringing(seconds, modes, rng):
    """A blow: modes are (Hz, seconds to fall by 1/e, loudness)."""
    t = np.arange(int(seconds * RATE)) / RATE
    x = sum(a * np.exp(-t / s) * np.sin(2 * np.pi * f * rng.uniform(.8, 1.25) * t) for f, s, a in modes)
    return x + .3 * rng.standard_normal(len(t)) * np.exp(-t / .002)


def repeated(make, count, gap, rng):
    """Sounds of make(), gap(): seconds from one to the next."""
    parts, at = [], 0
    for _ in range(count):
        parts.append((at, make()))
        at += int(gap() * RATE)
    x = np.zeros(max(a + len(p) for a, p in parts))
    for a, p in parts:
        x[a:a + len(p)] += p * rng.uniform(.5, 1)
    return x


def keyboard(rng):
    key = lambda: repeated(lambda: ringing(.06, [(650, .01, 1), (2300, .005, .7), (4700, .003, .5)], rng), 2,
                           lambda: rng.uniform(.05, .1), rng)
    return repeated(key, rng.integers(5, 9), lambda: rng.uniform(.12, .25), rng)


def mouse(rng):
    click = lambda: repeated(lambda: ringing(.03, [(1800, .004, 1), (3400, .003, .8), (6100, .002, .6)], rng), 2,
                             lambda: rng.uniform(.06, .12), rng)
    return repeated(click, rng.integers(2, 4), lambda: rng.uniform(.25, .5), rng)


def knock(rng):
    return repeated(lambda: ringing(.3, [(120, .05, 1), (260, .04, .8), (540, .02, .5), (900, .012, .3)], rng),
                    rng.integers(2, 5), lambda: rng.uniform(.15, .3), rng)


def rustle(rng):
    x = sosfilt(butter(2, [900, 12000], 'bandpass', fs=RATE, output='sos'), rng.standard_normal(RATE))
    slow = np.repeat(rng.exponential(1, 51) ** 2, 960)[:RATE]
    return x * lfilter([.004], [1, -.996], slow) * np.hanning(RATE) ** .3


def chair(rng):
    steps = np.zeros(RATE * 3 // 5)
    steps[np.cumsum(RATE / rng.uniform(60, 180) * rng.uniform(.7, 1.3, 30)).astype(int) % len(steps)] = 1
    body = ringing(.05, [(330, .01, 1), (870, .008, .8), (1900, .004, .4)], rng)
    x = fftconvolve(steps, body)
    thud = ringing(.3, [(90, .06, 6), (210, .03, 3)], rng)
    return np.concatenate([x, thud])


def blows(x, least=12):
    """Where something begins in x: samples."""
    e = 10 * np.log10(power(x))
    rises = [i for i in range(2, len(e) - 5) if e[i] - e[i - 2:i].max() > least and e[i] > e.max() - 25]
    return [i * 960 for k, i in enumerate(rises) if not k or i - rises[k - 1] > 5]


def typing(paths, rng):
    """Keys of one keyboard, as fast as one types."""
    folder = os.path.dirname(paths[rng.integers(len(paths))])
    keys = []
    for p in rng.permutation([p for p in paths if os.path.dirname(p) == folder])[:8]:
        x = read(str(p))
        keys += [x[max(0, s - 960):s + 9600] for s in blows(x)[:6]]
    return repeated(lambda: keys[rng.integers(len(keys))], rng.integers(5, 9), lambda: rng.uniform(.09, .2), rng)


def handled(paths, rng):
    """A second around something loud in a kitchen."""
    x = read(paths[rng.integers(len(paths))])
    e = power(x)
    at = int(rng.choice(np.flatnonzero(e > .1 * e.max()))) * 960
    x = x[max(0, at - 4800):at + RATE * 3 // 4]
    return x * np.minimum(1, np.minimum(np.arange(len(x)), np.arange(len(x))[::-1]) / 2400)


def telephone(x):
    """300 to 3400 Hz of it, by 8 kHz and mu-law."""
    x = sosfiltfilt(butter(4, [300, 3400], 'bandpass', fs=RATE, output='sos'), x)
    loud = np.abs(x).max() + 1e-9
    y = coded(resample_poly(x / loud * .9, 1, RATE // 8000), 8000, 'WAV', 'ULAW') / .9 * loud
    return resample_poly(y, RATE // 8000, 1)[:len(x)]


def coded(x, at, container, codec, **options):
    """x through a codec of libsndfile, as long as it was."""
    f = io.BytesIO()
    soundfile.write(f, x, at, format=container, subtype=codec, **options)
    f.seek(0)
    y = soundfile.read(f, always_2d=True)[0][:, 0]
    return np.pad(y, (0, max(0, len(x) - len(y))))[:len(x)]


def low_rate(x):
    """Opus at the lowest rate that libsndfile has."""
    loud = np.abs(x).max() + 1e-9
    return coded(x / loud * .9, RATE, 'OGG', 'OPUS', compression_level=1.) / .9 * loud


class Judge:
    """Recordings and rooms; for each domain a function of i that gives dict(clean, noisy at 48 kHz, snr_db, ...)."""

    def __init__(self, folders, rooms, seed):
        found = gather(folders)
        if empty := [name for name, paths in found.items() if not paths]:
            warnings.warn(f"judge.py: no recordings of: {', '.join(empty)}")
        self.seed, self.found = seed, found
        self.paths = {name: shuffled(paths, seed) for name, paths in found.items()}
        good = lambda name: [p for p in by_speaker(found[name], seed)[:400] if background(p) >= BACKGROUND]
        self.paths |= {name: good(name) for name in ('studio', 'people', 'singing', 'whispers')}
        spoken = {os.path.dirname(p): p for p in reversed(self.paths['people'])}
        self.paths['people'] = list(reversed(spoken.values())) # one sentence of each
        self.paths |= {name: [p for p in by_speaker(found[name], seed)[:300] if NOISY[0] <= background(p) < NOISY[1]]
                       for name in REAL}
        self.distant = distant(read_rooms(rooms))

    def pick(self, name, i):
        return self.paths[name][i % len(self.paths[name])]

    def speech(self, i):
        """Half of the voices are a studio's, half people's own."""
        kind, i = turn(i, ('studio', 'people'))
        return self.pick(kind, i)

    def noise(self, samples, rng, names=('everyday', 'everyday', 'kitchen')):
        """-> samples, path"""
        path = self.pick(names[rng.integers(len(names))], rng.integers(1 << 20))
        return lasting(read(path), samples, rng), path

    def noisy(self, speech, clean, path, snr_db, rng, **more):
        """The pair that everyday noise makes."""
        x, noise = self.noise(len(speech), rng)
        return dict(clean=clean, noisy=speech + at_snr(x, level(clean), snr_db), snr_db=snr_db, speech=path,
                    noise=noise) | more

    def studio(self, i, rng):
        path = self.pick('studio', i)
        x = sentence(path, .5, rng)
        others = [p for p in self.paths['studio'] if os.path.dirname(p) == os.path.dirname(path)]
        before = [sentence(others[rng.integers(len(others))], .3, rng) for _ in range(8)]
        x = np.concatenate([np.concatenate(before)[-BEFORE:], x])
        snr_db = (2.5, 7.5, 12.5, 17.5)[i // 2 % 4]
        return self.noisy(x, x, path, snr_db, rng, before=BEFORE)

    def languages(self, i, rng):
        path = self.pick('people', i)
        x = sentence(path, rng.uniform(.2, .6), rng)
        return self.noisy(x, x, path, (-5, 0, 5, 10)[i // 2 % 4], rng)

    def far(self, i, rng):
        path, (room, h) = self.speech(i), self.distant[rng.integers(len(self.distant))]
        x, early = in_room(sentence(path, .3, rng), h)
        return self.noisy(x, early, path, (5, 10, 15, 20)[i // 2 % 4], rng, room=room)

    def events(self, i, rng):
        path = next(p for k in range(100) if background(p := self.speech(i + 60 + 2 * k)) >= PAUSES or k == 99)
        words = [sentence(path, rng.uniform(.9, 1.3), rng, 3 * RATE + RATE // 4) for _ in range(2)]
        x = joined([words[0], words[1], tone(read(path) / level(read(path)), RATE * 3 // 4, rng)])
        kind, _ = turn(i, ('typing', 'keyboard', 'mouse', 'knock', 'rustle', 'dishes', 'chair'))
        make = dict(typing=partial(typing, self.paths['keys']), dishes=partial(handled, self.paths['dishes']),
                    keyboard=keyboard, mouse=mouse, knock=knock, rustle=rustle, chair=chair)[kind]
        quiet = np.repeat(power(x) < 1e-3, 960)
        noise, edges = np.zeros(len(x)), np.flatnonzero(np.diff(np.concatenate([[0], quiet, [0]])))
        below = rng.uniform(*dict(typing=(8, 22), keyboard=(8, 22), mouse=(12, 25), knock=(0, 12), rustle=(10, 25),
                                  dishes=(3, 15), chair=(5, 18))[kind])
        for start, stop in edges.reshape(-1, 2):
            if stop - start > RATE // 3:
                y = make(rng)
                y = y[:stop - start - RATE // 12]
                y[-FADE:] *= np.linspace(1, 0, FADE)
                noise[start + RATE // 24:start + RATE // 24 + len(y)] += y / level(y) * 10 ** (-below / 20)
        room = self.noise(len(x), rng, ('everyday',))[0]
        return dict(clean=x, noisy=x + noise + at_snr(room, 1, 40), snr_db=5 * round(below / 5), speech=path, kind=kind)

    def faint(self, i, rng):
        kind, k = turn(i, ('whisper', 'breath', 'quiet', 'after silence'))
        path, more = self.speech(i + 120), {}
        if kind == 'whisper':
            if k % 3 == 0 and self.paths['whispers']:
                path = self.pick('whispers', k // 3)
                x = lasting(read(path), 5 * RATE, rng)
                x = x / level(x)
            else:
                x = whispered(sentence(path, .4, rng), rng)
                x = x / level(x)
        elif kind == 'breath':
            air = read(self.pick('breaths', k))
            e = np.convolve(power(air), np.ones(20), 'valid')   # its loudest .4 s that is no burst
            at = int(rng.choice(np.flatnonzero(e > .3 * e.max()))) * 960
            air = air[at:at + RATE * 2 // 5] * np.hanning(len(air[at:at + RATE * 2 // 5])) ** .5
            x, start = sentence(path, .7, rng), RATE // 5
            x[start:start + len(air)] += at_snr(air, 1, rng.uniform(18, 28))
            more = dict(mark=start, end=start + len(air))
        else:
            x = sentence(path, 2.5 if kind == 'after silence' else .4, rng)
        if kind == 'quiet':
            more['level'] = -45
        snr_db = (15, 20, 25)[rng.integers(3)]
        found = self.noisy(x, x, path, snr_db, rng, **more)
        return found | dict(kind=kind)

    def voices(self, i, rng):
        (kind, k), path = turn(i, ('talker', 'six', 'crowd')), self.speech(i + 180)
        x = sentence(path, .5, rng)
        across = lambda p: in_room(lasting(read(p) / level(read(p)), len(x), rng),
                                   self.distant[rng.integers(len(self.distant))][1])[0]
        noise = self.pick('others', i)
        if kind == 'crowd':
            noise = self.pick('crowd', k)
            y = lasting(read(noise), len(x), rng)
        else:
            y = sum(across(self.pick('others', 6 * i + k)) for k in range(1 if kind == 'talker' else 6))
        snr_db = dict(talker=(5, 10, 15), six=(0, 5, 10), crowd=(0, 5, 10))[kind][k // 2 % 3]
        return dict(clean=x, noisy=x + at_snr(y, level(x), snr_db), snr_db=snr_db, speech=path, noise=noise, kind=kind)

    def coded(self, i, rng):
        (kind, k), path = turn(i, ('headset', 'codec', 'clipped')), self.speech(i + 240)
        x = sentence(path, .4, rng)
        pair = self.noisy(x, x, path, (5, 10, 15, 20)[k // 2 % 4], rng)
        if kind == 'headset':
            pair |= {k: telephone(pair[k]) for k in ('clean', 'noisy')}
        elif kind == 'codec':
            pair['noisy'] = low_rate(pair['noisy'])
        else:
            most = np.quantile(np.abs(pair['noisy']), rng.uniform(.97, .995))
            pair['noisy'] = pair['noisy'].clip(-most, most)
        return pair | dict(kind=kind)

    def song(self, i, rng):
        kind, k = turn(i, ('singing', 'laughter', 'music'))
        if kind == 'music':
            path, music = self.speech(i + 300), self.pick('music', k)
            x, snr_db = sentence(path, .4, rng), (0, 5, 10)[k // 2 % 3]
            y = lasting(read(music), len(x), rng)
            return dict(clean=x, noisy=x + at_snr(y, level(x), snr_db), snr_db=snr_db, speech=path, noise=music,
                        kind=kind)
        path = self.pick(kind, k)
        x = read(path)
        x = lasting(x / level(x), min(len(x), 5 * RATE), rng)
        pair = self.noisy(x, x, path, (15, 25, 35)[k // 2 % 3], rng)
        return pair | dict(kind=kind)

    def real(self, i, rng):
        kind, k = turn(i, REAL)
        path = self.pick(kind, k)
        x = read(path)
        return dict(clean=None, noisy=lasting(x, min(len(x), LONGEST), rng), snr_db=np.nan, speech=path, kind=kind)


PARTS = 'clean', 'noisy', 'others', 'enrolment'         # files of a pair, the last two of talkers.py alone
COLUMNS = 'name', 'rate', 'snr_db', 'start', 'mark', 'end', 'kind', 'speech', 'noise', 'room'
DOMAINS = 'studio', 'languages', 'far', 'events', 'faint', 'voices', 'coded', 'song', 'real'


def band(pair):
    """Hz: 48000 if both speech and noise have it."""
    narrow = any(rate(pair[k]) < FULL for k in ('speech', 'noise') if k in pair)
    return 16000 if narrow or pair.get('kind') == 'headset' else RATE


def levelled(pair, rng):
    """The pair at its `level` in dBFS or one drawn, as far as nothing clips."""
    loud = 10 ** (pair.pop('level', rng.uniform(-36, -18)) / 20)
    sounds, before = {k: pair[k] for k in PARTS if pair.get(k) is not None}, pair.get('before', 0)
    spoken = sounds['clean' if 'clean' in sounds and sounds['clean'][before:].any() else 'noisy']
    gain = min(loud / level(spoken[before:]), .98 / max(np.abs(x).max() for x in sounds.values()))
    return pair | {k: x * gain for k, x in sounds.items()}


def write(out, name, pair, at, start):
    """Writes the files of one pair -> its row"""
    for part in PARTS:
        if pair.get(part) is not None:
            soundfile.write(os.path.join(out, f'{name}_{part}.flac'),
                            resample_poly(pair[part][start:], 1, RATE // at), at)
    scored = (pair.get('before', 0) - start) * at // RATE
    marks = [str(pair[k] * at // RATE) if k in pair else '' for k in ('mark', 'end')]
    files = [short(pair[k]) if k in pair else '' for k in ('speech', 'noise')]
    return [name, at, pair['snr_db'], scored, *marks, pair.get('kind', ''), *files, pair.get('room', '')]


def short(path):
    """-> SOURCE/SPEAKER/FILE"""
    return '/'.join(path.split('/')[-3:])


def arguments(description, count):
    ap = argparse.ArgumentParser(description=description)
    ap.add_argument('rooms', help='path of .flac and .tsv, without these')
    ap.add_argument('out')
    ap.add_argument('recordings', nargs='+', help='folders of KIND/SOURCE/SPEAKER/FILE')
    ap.add_argument('--count', type=int, default=count, help='of each domain')
    ap.add_argument('--seed', type=int, default=0)
    return ap.parse_args()


def main():
    a = arguments('Pairs to judge networks by, in domains.', 60)
    judge = Judge(a.recordings, a.rooms, a.seed)
    os.makedirs(a.out, exist_ok=True)
    with open(os.path.join(a.out, 'pairs.tsv'), 'w') as table:
        print(*COLUMNS, sep='\t', file=table)
        for d, domain in enumerate(DOMAINS):
            for i in range(a.count):
                rng = np.random.default_rng([a.seed, d, i])
                pair = levelled(getattr(judge, domain)(i, rng), rng)
                before = pair.get('before', 0)
                print(*write(a.out, f'{domain}_{i:03}', pair, band(pair), before), sep='\t', file=table)
                if before and i % 6 < 2:
                    print(*write(a.out, f'{domain}-warm_{i:03}', pair, band(pair), 0), sep='\t', file=table)


if __name__ == '__main__':
    main()
