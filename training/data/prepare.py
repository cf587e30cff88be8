"""Unpack training audio:
python3 -m training.data.prepare OUT DATA... [--coded DATA...] [--spoken REGEX] [--often REGEX] [--events REGEX]

Each DATA holds index.tsv (file, start_sample, samples, rate, source, speaker_or_clip) and the files it names, at 48 kHz
(speech_full*, voice_full*, noise*) or 16 kHz (speech_wide*, voice_wide*, noise_wide*: nothing above 8 kHz), as
originals.py and collect.py write them (voice*: song and laughter); and rooms_full.flac, rooms_wide.flac: room responses
of half a second at 48 kHz, one after the other, with rooms_full.tsv (source, place) where some of them are for judging.
OUT gets the same audio as raw 16-bit mono at its own rate for train.py, the first samples of recordings in _starts.i64,
noises that --events names (what happens beside a voice: keys, knocks, doors) in a pack of their own as well, and what
--coded names, which went through a codec at a low rate, in files of its own: training hears those in a tenth of its
clips at most. Left out are rooms and microphones' floors that judge.py has, and noise clips whose names say that they
are speech (a network that hears those learns to remove speech).
"""
import argparse
import csv
import hashlib
import os
import re
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import soundfile

RATE, WIDE = 48000, 16000                              # Hz: full band, and what has nothing above 8 kHz
PIECE = 600                                            # seconds decoded at a time
ROOM = 24000                                           # samples of a room's response


def decode(job):
    """job: (path, first frame, end) -> int16 samples."""
    path, start, stop = job
    with soundfile.SoundFile(path) as f:
        f.seek(start)
        x = f.read(stop - start, dtype='float32')
    return np.clip(x * 32768, -32768, 32767).astype(np.int16)


def pieces(path):
    """-> [(path, first frame, end)]: jobs for decode() of PIECE seconds each."""
    with soundfile.SoundFile(path) as f:
        n, step = f.frames, PIECE * f.samplerate
    return [(path, i, min(i + step, n)) for i in range(0, n, step)]


def for_judging(name):
    """One real room or floor of a microphone in six (SOURCE/PLACE, SOURCE/CLIP), chosen by a hash: judge.py has these,
    training must not."""
    return hashlib.md5(name.encode()).digest()[0] % 6 == 0


def read_index(data):
    """-> {'speech_full': [segment], ...}; a segment lasts until the next one starts, positions at 48 kHz in the joined
    files."""
    packs, offset = {}, {}
    with open(os.path.join(data, 'index.tsv')) as f:
        rows = list(csv.DictReader(f, delimiter='\t'))
    for r in rows:
        pack = pack_of(r['file'])
        segments = packs.setdefault(pack, [])
        if r['file'] not in offset:
            infos = [soundfile.info(os.path.join(data, f)) for f in offset if pack_of(f) == pack]
            offset[r['file']] = sum(i.frames * RATE // i.samplerate for i in infos)
        start = offset[r['file']] + int(r['start_sample']) * RATE // int(r['rate'])
        if segments:
            segments[-1]['stop'] = start
        stop = start + int(r['samples']) * RATE // int(r['rate'])
        segments.append(dict(start=start, stop=stop, name=r['source'] + '/' + r['speaker_or_clip']))
    return packs, list(offset)


def pack_of(file):
    """'noise_0.opus' -> 'noise'."""
    return file.rsplit('_', 1)[0]


def rate_of(pack):
    """Hz."""
    return WIDE if pack.endswith('_wide') else RATE


def decoded(data, files, pack, jobs):
    """The joined samples of a pack's files, [n] int16 at their rate."""
    with ProcessPoolExecutor(jobs) as pool:
        jobs = [j for f in files if pack_of(f) == pack for j in pieces(os.path.join(data, f))]
        return np.concatenate(list(pool.map(decode, jobs)))


def level(x, rate=RATE):
    """RMS of the active part: 20 ms frames within 20 dB of the loudest."""
    n = rate // 50
    e = (x[:len(x) // n * n].reshape(-1, n) ** 2).mean(1)
    return np.sqrt(e[e > .01 * e.max()].mean())


def heard(pack, name, spoken):
    """Whether training may use the item of this name."""
    if pack.startswith(('speech', 'voice')):
        return True
    return not re.search(spoken, name) and not (name.startswith('floor-') and for_judging(name))


def rooms(data, band):
    """[n, ROOM] int16: the responses that training may use."""
    path = os.path.join(data, f'rooms_{band}')
    if not os.path.exists(path + '.flac'):
        return np.zeros((0, ROOM), np.int16)
    x = soundfile.read(path + '.flac', dtype='int16')[0].reshape(-1, ROOM)
    if not os.path.exists(path + '.tsv'):
        return x
    with open(path + '.tsv') as f:
        return x[[not for_judging(f"{r['source']}/{r['place']}") for r in csv.DictReader(f, delimiter='\t')]]


def main():
    ap = argparse.ArgumentParser(description='Unpack training audio.')
    ap.add_argument('out')
    ap.add_argument('data', nargs='+')
    ap.add_argument('--coded', nargs='+', default=[], metavar='DATA',
                    help='what went through a codec at a low rate: a tenth of the clips at most')
    ap.add_argument('--spoken', default='$^', help='names of noise clips to leave out')
    ap.add_argument('--often', default='$^', help='names of speech to write three times')
    ap.add_argument('--events', default='$^', help='names of noises that are events')
    ap.add_argument('--jobs', type=int, default=os.cpu_count())
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    for folders, ending in (a.data, '.i16'), (a.coded, '_coded.i16'):
        hours = {}
        for data in folders:
            packs, files = read_index(data)
            for pack, segments in packs.items():
                x, step = decoded(data, files, pack, a.jobs), RATE // rate_of(pack)
                for s in segments:
                    if not heard(pack, s['name'], a.spoken):
                        continue
                    part = x[s['start'] // step:s['stop'] // step]
                    often = 3 if pack.startswith(('speech', 'voice')) and re.search(a.often, s['name']) else 1
                    event = ['events'] if pack == 'noise' and re.search(a.events, s['name']) else []
                    for to in [pack] * often + event:
                        starts = hours.setdefault(to, [0])
                        with open(os.path.join(a.out, to + ending), 'ab' if len(starts) > 1 else 'wb') as f:
                            part.tofile(f)
                        starts.append(starts[-1] + len(part))
        for pack, starts in hours.items():
            np.array(starts[:-1]).tofile(os.path.join(a.out, f'{pack}_starts{ending}'.replace('.i16', '.i64')))
            print(f'{pack}{ending}: {starts[-1] / rate_of(pack) / 3600:.2f} h')
    for band in 'full', 'wide':
        responses = np.concatenate([rooms(data, band) for data in a.data + a.coded])
        responses.tofile(os.path.join(a.out, f'rooms_{band}.i16'))


if __name__ == '__main__':
    main()
