"""Speech to train and to judge voice prints with:
python3 -m training.voiceprint.data FOLDER SOURCES OUT

FOLDER/KIND/SOURCE/SPEAKER/FILE and SOURCES are as in training/data/originals.py, which also says what may not be used.
OUT gets utterances of at least a few seconds, without long pauses: speech.i16 (16 kHz, mono), and utterances.tsv with
where each begins and ends, its source, its speaker, whether that is one person, and its first recording.
"""
import argparse
import csv
import os
import re
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import soundfile

from training.data.collect import resampled
from training.data.originals import read, recordings
from training.voiceprint.network import RATE

ACTIVE, HANGOVER = 10 ** -1.5, .15                      # of the loud level, a frame's power there; s around such frames
UTTERANCE, SHORTEST, LONGEST = 4., 1.6, 20.             # s
MOST, FOLDER_MOST = 240, 60                             # s: of a person, of a folder of voices
FILES, NAMELESS_FILES = 100, 4000                       # recordings, of either, of a source without names
# Folders there are stories or languages, not people.
FOLDERS = re.compile(r'^(GCompris-voices|curious|robotutor-)')
NAMELESS = re.compile(r'^(-|pv|precise|es-unknown)$')
# The same people in several sources.
CORPUS = re.compile(r'^(libri|vctk|mls|lj|arctic|aishell3)\b')


def spoken(x):
    """[n] without its pauses, but for HANGOVER around what is spoken"""
    n = RATE // 50
    e = (x[:len(x) // n * n].reshape(-1, n) ** 2).mean(1)
    if not len(e):
        return x[:0]
    loud = e >= np.quantile(e, .95) * ACTIVE
    near = int(HANGOVER * RATE / n)
    around = np.convolve(loud, np.ones(2 * near + 1))[near:-near] > 0
    return x[:len(loud) * n][np.repeat(around, n)]


def decoded(path):
    """-> the loudest channel of a recording [n] at RATE without pauses, peak at most 1; [0] where it cannot be read"""
    try:
        x, rate = read(path)
    except (soundfile.SoundFileError, ValueError):
        return np.zeros(0, np.float32)
    if not len(x):
        return np.zeros(0, np.float32)
    x = x[:, (x ** 2).mean(0).argmax()]
    x = resampled(x - x.mean(), rate, RATE).astype(np.float32)
    return spoken(x / max(1, np.abs(x).max())) if np.isfinite(x).all() else x[:0]


def person(source, speaker):
    """-> the name under which all recordings of a person are found, and whether it is that of one person"""
    if NAMELESS.match(speaker) or FOLDERS.match(source):
        return f'{source}/{speaker}', False
    return speaker if CORPUS.match(speaker) else f'{source}/{speaker}', True


def some(found):
    """[(source, speaker, path)] -> those of them that are taken, spread over the recordings of each speaker"""
    of = defaultdict(list)
    for r in found:
        of[r[:2]].append(r)
    for (_, speaker), rows in of.items():
        most = min(len(rows), NAMELESS_FILES if NAMELESS.match(speaker) else FILES)
        yield from (rows[i * len(rows) // most] for i in range(most))


def utterances(found, pool):
    """[(source, speaker, path)] -> [(source, speaker, whether it is a person, first path, samples)]: short recordings
    of one speaker joined until they last UTTERANCE"""
    total, parts, begun = Counter(), [], None
    for (source, speaker, path), x in zip(found, pool.map(decoded, [r[2] for r in found], chunksize=32)):
        name, one = person(source, speaker)
        alone = bool(NAMELESS.match(speaker))           # who knows whether the next recording is of the same person
        if begun and (begun[1] != name or alone):
            yield *begun, np.concatenate(parts)
            begun = None
        most = MOST if one else FOLDER_MOST
        if not alone and total[name] > most * RATE or len(x) < .3 * RATE:
            continue
        if not begun:
            begun, parts = (source, name, one, path), []
        parts.append(x[:int(LONGEST * RATE)] / (np.abs(x).max() + 1e-9) * .5)
        total[name] += len(parts[-1])
        if sum(map(len, parts)) >= UTTERANCE * RATE:
            yield *begun, np.concatenate(parts)
            begun = None
    if begun:
        yield *begun, np.concatenate(parts)


def write(out, made):
    """Writes utterances; -> hours, people"""
    os.makedirs(out, exist_ok=True)
    at, people = 0, set()
    with open(os.path.join(out, 'speech.i16'), 'wb') as f, open(os.path.join(out, 'utterances.tsv'), 'w') as table:
        print('start', 'samples', 'source', 'speaker', 'person', 'recording', sep='\t', file=table)
        for source, name, one, path, x in made:
            if len(x) >= SHORTEST * RATE:
                print(at, len(x), source, name, int(one), path, sep='\t', file=table)
                f.write((x * 32767).astype(np.int16).tobytes())
                at += len(x)
                people |= {name} if one else set()
    return at / RATE / 3600, len(people)


def load_rows(folder):
    """-> rows of utterances.tsv"""
    with open(os.path.join(folder, 'utterances.tsv')) as f:
        return [r | {k: int(r[k]) for k in ('start', 'samples', 'person')}
                for r in csv.DictReader(f, delimiter='\t', quoting=csv.QUOTE_NONE)]


def load(folder):
    """-> samples [n] int16, rows of utterances.tsv"""
    return np.fromfile(os.path.join(folder, 'speech.i16'), np.int16), load_rows(folder)


def main():
    ap = argparse.ArgumentParser(description='Prepare speech for voice prints.')
    ap.add_argument('folder')
    ap.add_argument('sources')
    ap.add_argument('out')
    ap.add_argument('--jobs', type=int, default=os.cpu_count())
    a = ap.parse_args()
    with open(a.sources) as f:
        sources = {r['source']: (r['use'], r['licence'])
                   for r in csv.DictReader(f, delimiter='\t', quoting=csv.QUOTE_NONE)}
    found = list(some((source, speaker, path) for kind, source, speaker, path in recordings(a.folder, sources, set())
                      if kind == 'speech'))
    print(len(found), 'recordings', flush=True)
    with ProcessPoolExecutor(a.jobs) as pool:
        hours, people = write(a.out, utterances(found, pool))
    print(f'{hours:.2f} h, {people} people by name')


if __name__ == '__main__':
    main()
