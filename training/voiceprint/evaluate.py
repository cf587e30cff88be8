"""How often voice prints err about people whom they have not heard:
python3 -m training.voiceprint.evaluate JUDGED ROOMS OUT [VOICE.safetensors...] [--teacher PRETRAINED]

JUDGED/KIND/SOURCE/SPEAKER/FILE are recordings to judge with: people whom recordings.tsv.xz does not name, with enough
of them. Of each, ENROLMENT seconds of some recordings make a print; TESTS stretches of others are compared with it and
with all other people's of the same source, so that neither the language nor the sort of microphone tells them apart.
In all conditions but `clean` the stretch is another recording than the enrolment in that respect: another room, an
everyday noise, a telephone's band, another microphone. OUT gets the prints, so that only new files are computed.

Prints for each condition the equal error rate in percent over all trials, with the middle 95 % of a bootstrap over the
people.
"""
import argparse
import os
import re
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

from training.data.collect import SOUND
from training.evaluation.judge import heard
from training.voiceprint.conditions import CODECS, band, changed, coded, lasting, noises, response, rooms
from training.voiceprint.data import NAMELESS, decoded
from training.voiceprint.export import load
from training.voiceprint.network import RATE

ENROLMENT, TESTS = (5, 15), 3                           # s at least and at most; stretches of a person
FILES = 24                                              # recordings of a person, at most
LEAST_PEOPLE = 5                                        # of a source
SECONDS = {'clean 1.5 s': 1.5, 'clean 5 s': 5}          # of a stretch; otherwise
LENGTH = 3
CONDITIONS = ('clean', 'clean 1.5 s', 'clean 5 s', 'other session', 'other room', 'other microphone', 'telephone',
              'noise 10 dB', 'noise 0 dB', 'room, noise 10 dB')
ONE_VOICE = re.compile('asterisk|freeswitch')              # whose folders are not people
AN4 = re.compile('an4.*_([fm])[a-z]+$')                 # whose names tell the sex
CHAPTER = re.compile(r'(\d+-\d+)-\d+\.')                # LibriSpeech's sessions


def session(path):
    found = CHAPTER.search(os.path.basename(path))
    return found and found[1]


def people(folder, pool):
    """-> {source: {speaker: [(path, samples)]}}: everyone whom training has not heard"""
    paths, known = [], heard()
    for place, _, files in sorted(os.walk(os.path.join(folder, 'speech'))):
        source, speaker = place.split(os.sep)[-2:]
        if files and not (speaker in known or NAMELESS.match(speaker) or ONE_VOICE.match(source)):
            files = sorted((f for f in files if SOUND.search(f)), key=lambda f: f.split('_', 1)[-1])
            most = min(FILES, len(files))
            paths += [(source, speaker, os.path.join(place, files[i * len(files) // most])) for i in range(most)]
    found = defaultdict(lambda: defaultdict(list))
    for (source, speaker, path), x in zip(paths, pool.map(decoded, [p[2] for p in paths], chunksize=8)):
        if len(x) > RATE // 2 and x.any():
            found[source][speaker].append((path, x / np.abs(x).max() * .5))
    return found


def parted(takes):
    """[(path, samples)] -> enrolment [n], stretches of other recordings [[n]], whether these are of another session; or
    None where there is not enough"""
    takes = sorted(takes, key=lambda t: session(t[0]) or '')
    enrolment, n, k = [], 0, 0
    while k < len(takes) - 1 and n < ENROLMENT[1] * RATE and (n < ENROLMENT[0] * RATE or k < len(takes) // 2):
        enrolment.append(takes[k][1])
        n, k = n + len(takes[k][1]), k + 1
    used = {session(t[0]) for t in takes[:k]}
    other = [t for t in takes[k:] if session(t[0]) not in used]
    rest = np.concatenate([t[1] for t in other or takes[k:]])
    if n < ENROLMENT[0] * RATE or len(rest) < LENGTH * RATE:
        return None
    return np.concatenate(enrolment)[:ENROLMENT[1] * RATE], rest, bool(other) and None not in used


def stretches(rest, seconds):
    """[n] -> up to TESTS stretches of so many seconds, spread over it, that do not overlap"""
    n = min(len(rest), int(seconds * RATE))
    count = min(TESTS, len(rest) // n)
    return [rest[i:i + n] for i in (k * (len(rest) - n) // max(1, count - 1) for k in range(count))]


def in_condition(x, condition, responses, recorded, rng):
    """A stretch as it is in one of CONDITIONS"""
    kinds = {}
    if 'room' in condition:
        kinds['h'] = responses[rng.integers(len(responses))]
    if 'noise' in condition:
        kinds |= dict(noise=lasting(recorded[rng.integers(len(recorded))], len(x), rng),
                      snr_db=float(condition.split()[-2]))
    if condition == 'telephone':
        return coded(changed(x, after=lambda f: band(f, 300, 3400)), CODECS[rng.integers(2, 4)])
    if condition == 'other microphone':
        low, high = rng.uniform(60, 200), rng.uniform(4000, 7500)
        kinds |= dict(gain=lambda f: response(f, rng, 10), after=lambda f: band(f, low, high))
    return changed(x, **kinds) if kinds else x


class Trials:
    """Everything to be heard, the same for every system: enrolments [[n]], and for each condition (sound, person)."""

    def __init__(self, found, responses, recorded, seed=0):
        self.source, self.enrolments, self.tests, self.names = [], [], defaultdict(list), []
        for source, speakers in sorted(found.items()):
            enough = {s: p for s, takes in sorted(speakers.items()) if (p := parted(takes))}
            if len(enough) < LEAST_PEOPLE:
                continue
            for speaker, (enrolment, rest, other_session) in enough.items():
                who = len(self.source)
                self.source.append(source)
                self.names.append(f'{source}/{speaker}')
                self.enrolments.append(enrolment)
                for c in CONDITIONS:
                    if c == 'other session' and not other_session:
                        continue
                    for k, x in enumerate(stretches(rest, SECONDS.get(c, LENGTH))):
                        rng = np.random.default_rng((seed, who, CONDITIONS.index(c), k))
                        self.tests[c].append((in_condition(x, c, responses, recorded, rng), who))
        self.source = np.array(self.source)

    def prints(self, system):
        """system: [[n]] -> [[size] or None] -> {condition or '': [n, size]}"""
        made = {'': system(self.enrolments)}
        made |= {c: system([x for x, _ in tests]) for c, tests in self.tests.items()}
        size = len(next(p for p in made[''] if p is not None))
        return {c: np.stack([np.zeros(size) if p is None else np.asarray(p) for p in ps]) for c, ps in made.items()}

    def scores(self, prints, condition):
        """-> scores, whether it is the same person, the enrolled and the heard person, of all trials"""
        heard_who = np.array([w for _, w in self.tests[condition]])
        enrolled = np.unique(heard_who)
        score = prints[''][enrolled] @ prints[condition].T
        i, j = np.nonzero(self.source[enrolled][:, None] == self.source[heard_who][None])
        return score[i, j], enrolled[i] == heard_who[j], enrolled[i], heard_who[j]


def equal_error(scores, same, weights=None):
    """-> the rate at which as many of the same person are rejected as of others are accepted"""
    order = np.argsort(scores)
    same = same[order]
    w = np.ones(len(scores)) if weights is None else weights[order]
    missed = np.concatenate([[0], np.cumsum(w * same)]) / (w * same).sum()
    accepted = 1 - np.concatenate([[0], np.cumsum(w * ~same)]) / (w * ~same).sum()
    k = np.flatnonzero(missed >= accepted)[0]
    if k == 0:
        return accepted[0]
    a, b = missed[k - 1] - accepted[k - 1], missed[k] - accepted[k]
    t = -a / (b - a) if b > a else 0
    return missed[k - 1] + t * (missed[k] - missed[k - 1])


def interval(scores, same, enrolled, others, draws=300, seed=0, against=None):
    """-> the middle 95 % of the rate, or of its difference to that of the scores `against`, over people drawn anew"""
    rng, names = np.random.default_rng(seed), np.unique(enrolled)
    rates = []
    for _ in range(draws):
        count = np.zeros(names.max() + 1)
        np.add.at(count, rng.choice(names, len(names)), 1)
        w = np.where(same, count[enrolled], count[enrolled] * count[others])
        rates.append(equal_error(scores, same, w) - (0 if against is None else equal_error(against, same, w)))
    return np.quantile(rates, (.025, .975))


def main():
    ap = argparse.ArgumentParser(description='Equal error rates of voice prints.')
    ap.add_argument('judged')
    ap.add_argument('rooms')
    ap.add_argument('out')
    ap.add_argument('voices', nargs='*')
    ap.add_argument('--teacher')
    ap.add_argument('--jobs', type=int, default=os.cpu_count())
    a = ap.parse_args()
    torch.set_num_threads(1)
    os.makedirs(a.out, exist_ok=True)
    with ProcessPoolExecutor(a.jobs) as pool:
        found = people(a.judged, pool)
    trials = Trials(found, rooms(a.rooms, True), noises(a.judged, 150))
    print(len(trials.names), 'people:', *(f'{s} {n}' for s, n in zip(*np.unique(trials.source, return_counts=True))),
          flush=True)
    systems = {}
    if a.teacher:
        from training.voiceprint.teacher import Teacher
        systems['teacher'] = lambda sounds, net=Teacher(a.teacher): [net.print_of(x) for x in sounds]
    for path in a.voices:
        systems[os.path.basename(path).rsplit('.', 1)[0]] = lambda sounds, net=load(path): net.prints_of(
            [torch.from_numpy(np.asarray(x, np.float32)) for x in sounds])
    made = {}
    for name, system in systems.items():
        path = os.path.join(a.out, name + '.npz')
        if not os.path.exists(path):
            np.savez(path, **trials.prints(system))
        made[name] = dict(np.load(path))
    report(trials, made)


def report(trials, made):
    print('condition', 'people', 'of the same, of others', *made, sep='\t')
    first = next(iter(made), None)
    for c in trials.tests:
        cells, before = [], None
        for name, prints in made.items():
            s, same, i, j = trials.scores(prints, c)
            low, high = interval(s, same, i, j)
            cells.append(f'{100 * equal_error(s, same):.1f} ({100 * low:.1f} to {100 * high:.1f})')
            if name == first:
                before = s
            else:
                low, high = interval(s, same, i, j, against=before)
                cells[-1] += f', {100 * low:+.1f} to {100 * high:+.1f} to {first}'
        print(c, len(np.unique(i)), f'{same.sum()}, {(~same).sum()}', *cells, sep='\t')
    sex = np.array([m[1] if (m := AN4.search(n)) else '' for n in trials.names])
    everybody = np.zeros(len(sex))
    parts = [(source, trials.source == source, everybody) for source in np.unique(trials.source)]
    parts += [('an4, same sex', sex != '', sex)] if sex.any() else []
    for part, members, kind in parts:
        cells = []
        for prints in made.values():
            s, same, i, j = trials.scores(prints, 'clean')
            of = members[i] & (kind[i] == kind[j])
            low, high = interval(s[of], same[of], i[of], j[of])
            cells.append(f'{100 * equal_error(s[of], same[of]):.1f} ({100 * low:.1f} to {100 * high:.1f})')
        print(f'clean, {part}', members.sum(), f'{same[of].sum()}, {(~same[of]).sum()}', *cells, sep='\t')


if __name__ == '__main__':
    main()
