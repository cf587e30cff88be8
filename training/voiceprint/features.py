"""What train.py reads, made of what data.py wrote:
python3 -m training.voiceprint.features SPEECH ROOMS RECORDINGS OUT [--versions N] [--teacher PRETRAINED]

OUT gets features_0.u8 of the utterances as they are, features_1.u8 and so on of the same in random conditions: rooms of
ROOMS.flac and .tsv (as judge.py reads them; those to judge with stay out), noise of RECORDINGS/noise and music. With
--teacher also targets.npy: a teacher's print of each utterance, from up to TAKES of a person's utterances together.
"""
import argparse
import os
from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F

from training.voiceprint import data
from training.voiceprint.conditions import Conditions, noises, rooms
from training.voiceprint.network import BANDS, HOP, RATE, WINDOW, Features

LOWEST, UNIT = -5., .08                                 # of features in 8 bits
LONGEST = 8 * RATE                                      # samples of an utterance that are used
TAKES, WINDOWS = 12, 2                                  # utterances of a person, windows of each, that a target is of


def frames(samples):
    """-> frames of an utterance"""
    return 1 + (min(samples, LONGEST) - WINDOW) // HOP


def packed(features):
    """[n, bands] -> uint8"""
    return ((features - LOWEST) / UNIT).round().clamp(0, 255).byte()


def unpacked(features):
    return features.float() * UNIT + LOWEST


def version(out, number, speech, rows, conditions):
    """Writes features_NUMBER.u8, under another name until it is complete."""
    make, path = Features(), os.path.join(out, f'features_{number}.u8')
    with open(path + '.part', 'wb') as f:
        for i, r in enumerate(rows):
            x = speech[r['start']:r['start'] + min(r['samples'], LONGEST)].astype(np.float32) / 32768
            if number:
                x = conditions(x, np.random.default_rng((number, i)))
            with torch.no_grad():
                f.write(packed(make(torch.from_numpy(x)[None])[0]).numpy().tobytes())
    os.rename(path + '.part', path)


def targets(speech, rows, teacher, batch=48):
    """-> [utterances, size] of unit length: of a person the mean of TAKES utterances, otherwise each one's own"""
    group, members = [], defaultdict(list)
    for i, r in enumerate(rows):
        group.append(r['speaker'] if r['person'] else i)
        members[group[-1]].append(i)
    sums, pending = defaultdict(float), []

    def flush():
        for (name, _), e in zip(pending, teacher(torch.stack([w for _, w in pending]))):
            sums[name] = sums[name] + e
        pending.clear()

    for name, of in members.items():
        for i in of[::max(1, len(of) // TAKES)][:TAKES]:
            r = rows[i]
            x = speech[r['start']:r['start'] + min(r['samples'], LONGEST)].astype(np.float32) / 32768
            w = teacher.windows(x, rate=1 / 1.6)
            pending += [(name, w[k]) for k in sorted({0, len(w) // 2})[:WINDOWS]]
        if len(pending) >= batch:
            flush()
    if pending:
        flush()
    return np.stack([F.normalize(sums[g], dim=0).numpy() for g in group])


def main():
    ap = argparse.ArgumentParser(description='Prepare the training of voice prints.')
    ap.add_argument('speech')
    ap.add_argument('rooms')
    ap.add_argument('recordings')
    ap.add_argument('out')
    ap.add_argument('--versions', type=int, default=3)
    ap.add_argument('--teacher')
    a = ap.parse_args()
    torch.set_num_threads(1)
    os.makedirs(a.out, exist_ok=True)
    speech, rows = data.load(a.speech)
    if a.teacher:
        from training.voiceprint.teacher import Teacher
        np.save(os.path.join(a.out, 'targets.npy'), targets(speech, rows, Teacher(a.teacher)))
    conditions = Conditions(rooms(a.rooms, False), noises(a.recordings), speech)
    for number in range(a.versions + 1):
        if not os.path.exists(os.path.join(a.out, f'features_{number}.u8')):
            version(a.out, number, speech, rows, conditions)


if __name__ == '__main__':
    main()
