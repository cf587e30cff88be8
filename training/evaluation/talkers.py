"""Mixtures to judge by whether only the owner of the microphone is heard:
python3 -m training.evaluation.talkers ROOMS OUT RECORDINGS... [--count N] [--seed N]

ROOMS, RECORDINGS and the halves are as in judge.py; owner.py scores. Two thirds of the owners read English; the others
speak many languages, each into their own microphone. OUT gets N mixtures of each domain. Apart from `noise` and
`others`, other voices are 0, 6 or 12 dB below the owner; half of them speak next to the owner, half across a measured
room:

same        one other voice of the same sex, by the pitch: boys count as women
different   one of the other sex
similar     the voice that is nearest by pitch and spectrum
several     the owner among three to seven others
broadcast   a television or radio across a room: a reader over music, by a small loudspeaker
noise       the owner alone, in everyday noise
others      a voice, several or a broadcast, for 15 s, without the owner; half of them after the owner has spoken
whisper     the owner whispers (a vocoder does), one other talks
far         the owner speaks from across the room, one other talks
microphone  one other talks; the enrolment went through an 8 kHz headset

For each mixture OUT has NAME_clean (the owner), NAME_others (the other voices as they arrive), NAME_noisy (what the
microphone hears) and NAME_enrolment: 5 to 30 s of the owner from other recordings, of another session where the names
tell. The others begin 1.5 s before the owner and end a second later. Columns that judge.py does not have: `english`
(whether owner and others speak it), `voices` (how many others there are), `enrolment` (its recordings).
"""
import os
from collections import namedtuple

import numpy as np
from scipy.signal import butter, resample_poly, sosfilt

from training.data.prepare import RATE, level
from training.evaluation.judge import (BACKGROUND, COLUMNS, Judge, arguments, at_snr, background, band, in_room,
                                       joined, lasting, levelled, read, sentence, short, shuffled,
                                       telephone, whispered, write)
from training.evaluation.measures import bins, pitch

DOMAINS = ('same', 'different', 'similar', 'several', 'broadcast', 'noise', 'others', 'whisper', 'far', 'microphone')
SNRS = 0, 6, 12
ALONE = 15                                              # s of others without the owner
TAKES = 4, 16                                           # recordings of a voice: at least and at most
LOW, HIGH = 155, 170                                    # Hz: men's pitch is below, women's above

Voice = namedtuple('Voice', 'takes hz spectrum')


def described(takes):
    """-> Voice: the median of its pitch, and its mean spectrum in dB, 20 bands of 100 to 4000 Hz"""
    x = resample_poly(np.concatenate([read(p) / level(read(p)) for p in takes[:3]]), 16000, RATE)
    power = np.abs(bins(x, 1024, 256, size=2048)) ** 2
    hz = pitch(power) * (power.sum(0) > .01 * power.sum(0).max())
    edges = np.geomspace(13, 512, 21).astype(int)
    spectrum = 10 * np.log10(np.add.reduceat(power[:, hz > 0].mean(1), edges)[:-1])
    return Voice(takes, np.median(hz[hz > 0]), spectrum - spectrum.mean())


def unlike(a, b):
    """How far two voices are apart: 1 is two semitones, or 3 dB in all bands."""
    return 6 * abs(np.log2(a.hz / b.hz)) + np.sqrt(((a.spectrum - b.spectrum) ** 2).mean()) / 3


def voices(paths, seed):
    """-> the voices that have enough recordings"""
    takes = {}
    for p in shuffled(paths, seed):
        of = takes.setdefault(os.path.dirname(p), [])
        if len(of) < TAKES[1] and background(p) >= BACKGROUND:
            of.append(p)
    found = [described(of) for of in takes.values() if len(of) >= TAKES[0]]
    return [v for v in found if v.hz < LOW or v.hz > HIGH]


def session(path):
    """LibriSpeech's chapter; of other recordings the name."""
    return os.path.basename(path).split('_', 1)[-1].rsplit('-', 1)[0]


def spoken(takes, seconds, pause, rng):
    """A pause and recordings, until they last so long -> samples of level 1, the recordings used"""
    x = sentence(takes[0], pause, rng)
    used = 1
    while len(x) < seconds * RATE and used < len(takes):
        x = joined([x, sentence(takes[used], .3, rng)])
        used += 1
    return x, takes[:used]


def of_level(x, snr_db):
    """Speech x as many dB below level 1."""
    return x / level(x) * 10 ** (-snr_db / 20)


class Talkers(Judge):
    def __init__(self, folders, rooms, seed):
        super().__init__(folders, rooms, seed)
        self.pools = [voices(self.found[name], seed) for name in ('readers', 'people')]

    def talking(self, voice, samples, rng):
        """One voice without end -> [samples]"""
        return lasting(spoken(shuffled(voice.takes, rng), samples / RATE, .1, rng)[0], samples, rng)

    def across(self, x, rng):
        """x from across a room -> as it arrives, what of it arrives early, the room"""
        room, h = self.distant[rng.integers(len(self.distant))]
        return *in_room(x, h), room

    def arriving(self, kind, chosen, samples, rng):
        """Other voices beside the owner, across a room, or by a loudspeaker there -> [samples]"""
        if kind == 'beside':
            return self.talking(chosen[0], samples, rng)
        if kind == 'across':
            return sum(self.across(self.talking(v, samples, rng), rng)[0] for v in chosen)
        music = lasting(read(self.pick('music', rng.integers(1 << 20))), samples, rng)
        x = self.talking(chosen[0], samples, rng)
        x = sosfilt(butter(2, [200, 7000], 'bandpass', fs=RATE, output='sos'), x + at_snr(music, level(x), 10))
        return self.across(x, rng)[0]

    def chosen(self, domain, owner, pool, n, rng):
        """-> the other voices of a mixture"""
        rest = [v for v in shuffled(pool, rng) if v.takes[0] != owner.takes[0]]
        alike = lambda v: (v.hz < LOW) == (owner.hz < LOW)
        if domain in ('same', 'different'):
            rest = [v for v in rest if alike(v) == (domain == 'same')]
        elif domain == 'similar':
            rest.sort(key=lambda v: unlike(owner, v))
        several = domain == 'several' or domain == 'others' and n // 2 % 3 == 1
        return rest[:3 + n % 5 if several else 1]

    def mixture(self, domain, i, rng):
        """-> as Judge's functions return it, and the files and columns that are this module's own"""
        n = i // 2                                      # the same for an open mixture and the sealed one after it
        english = n % 3 != 1
        pool, snr_db = self.pools[not english], SNRS[n // 6 % 3]
        owner = pool[(i + 7 * DOMAINS.index(domain)) % len(pool)]
        takes = shuffled(owner.takes, rng)
        x, used = spoken(takes, 5.5, 1.5, rng)
        x = np.pad(x, (0, RATE))
        rest = sorted((p for p in takes if p not in used), key=lambda p: session(p) == session(used[0]))
        enrolment, enrolled = spoken(rest, rng.uniform(5, 30), .3, rng)
        enrolment = enrolment[:30 * RATE]
        pair = dict(clean=x, enrolment=telephone(enrolment) if domain == 'microphone' else enrolment, snr_db=snr_db,
                    speech=used[0], kind='', english=int(english), voices=0, enrolled=enrolled)
        if domain == 'noise':
            noise, path = self.noise(len(x), rng)
            return pair | dict(noisy=x + at_snr(noise, 1, snr_db), noise=path)
        chosen = self.chosen(domain, owner, pool, n, rng)
        pair |= dict(noise=chosen[0].takes[0], voices=len(chosen))
        if domain == 'others':
            before = np.zeros(0) if n % 2 else x
            kind = ('beside', 'across', 'broadcast')[n // 2 % 3]
            y = of_level(self.arriving(kind, chosen, ALONE * RATE, rng), snr_db)
            x, y = np.append(before, np.zeros(len(y))), np.append(np.zeros(len(before)), y)
            return pair | dict(clean=x, others=y, noisy=x + y, before=len(before), kind=kind)
        if domain == 'whisper':
            x = of_level(whispered(x, rng), 0)
        pair['clean'] = x
        if domain == 'far':
            x, pair['clean'], pair['room'] = self.across(x, rng)
        kind = dict(several='across', broadcast='broadcast').get(domain, ('beside', 'across')[n % 2])
        y = of_level(self.arriving(kind, chosen, len(x), rng), snr_db) * level(pair['clean'])
        return pair | dict(others=y, noisy=x + y, kind=kind)


def main():
    a = arguments('Mixtures to judge by whether only the owner of the microphone is heard.', 36)
    talkers = Talkers(a.recordings, a.rooms, a.seed)
    os.makedirs(a.out, exist_ok=True)
    with open(os.path.join(a.out, 'pairs.tsv'), 'w') as table:
        print(*COLUMNS, 'english', 'voices', 'enrolment', sep='\t', file=table)
        for d, domain in enumerate(DOMAINS):
            for i in range(a.count):
                rng = np.random.default_rng([a.seed, d, i])
                pair = levelled(talkers.mixture(domain, i, rng), rng)
                row = write(a.out, f'{domain}_{i:03}', pair, band(pair), 0)
                print(*row, pair['english'], pair['voices'], ';'.join(map(short, pair['enrolled'])), sep='\t',
                      file=table)


if __name__ == '__main__':
    main()
