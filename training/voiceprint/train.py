"""python3 -m training.voiceprint.train FEATURES SPEECH RUN [--minutes N | --steps N]
torchrun --nproc-per-node 2 -m training.voiceprint.train ...

Trains a voice print on what features.py wrote. Each utterance's class is its speaker or, where that has no name, the
utterance; its direction is the teacher's print, without the mean that all voices share. The loss: the distance to it,
and a softmax with an angular margin over all classes, without those that may be the same person by the teacher's
prints. RUN/voice.pt, written every two minutes, is what export.py reads.
"""
import argparse
import math
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

from training.voiceprint import data
from training.voiceprint.features import frames, unpacked
from training.voiceprint.network import BANDS, STACK, Voiceprint, normalised

STEPS = 28, 50                                          # of 40 ms: crops of 1.1 to 2 s
SCALE, MARGIN = 24., .15                                # of the softmax: of cosines; radians
ALIKE = .6                                              # cosine of targets of classes that are not told apart
DISTANCE = 2.                                           # weight of the distance
NAMELESS = .35                                          # share of crops of voices without names
CLEAN = .25                                             # share of crops without conditions
MASKED = .3                                             # share of crops with hidden bands
RATE, DECAY = 2e-3, .5                                  # learning rate; share of the time in which it falls
WARM = 40                                               # steps in which it rises


def centred(targets):
    t = targets - targets.mean(0)
    return t / np.linalg.norm(t, axis=1, keepdims=True)


class Crops:
    """Features of random crops, all of one length, and their classes."""

    def __init__(self, features, rows, classes, seed=0, device='cpu'):
        self.rng, self.device = np.random.default_rng(seed), device
        self.length = np.array([frames(r['samples']) for r in rows])
        self.start = np.concatenate([[0], np.cumsum(self.length)[:-1]])
        self.classes = classes
        self.features, self.versions = features, []
        self.look()
        person = np.array([r['person'] for r in rows], bool)
        self.nameless = np.flatnonzero(~person)
        self.of = [np.flatnonzero((classes == c) & person) for c in np.unique(classes[person])]
        weight = np.array([len(o) for o in self.of]) ** .5
        self.weight = np.cumsum(weight / weight.sum())

    def look(self):
        """Opens what versions there are by now."""
        while os.path.exists(path := os.path.join(self.features, f'features_{len(self.versions)}.u8')):
            version = torch.from_file(path, size=os.path.getsize(path), dtype=torch.uint8)
            self.versions.append(version.view(-1, BANDS).to(self.device))

    def utterance(self):
        if len(self.nameless) and (not self.of or self.rng.random() < NAMELESS):
            return self.rng.choice(self.nameless)
        return self.rng.choice(self.of[min(np.searchsorted(self.weight, self.rng.random()), len(self.of) - 1)])

    def batch(self, n):
        """-> [n, frames, BANDS], classes [n]"""
        want = STACK * int(self.rng.integers(STEPS[0], STEPS[1] + 1))
        i = np.array([self.utterance() for _ in range(n)])
        version = self.rng.integers(1, len(self.versions), n) if len(self.versions) > 1 else np.zeros(n, int)
        version[self.rng.random(n) < CLEAN] = 0
        at = self.start[i] + self.rng.integers(np.maximum(1, self.length[i] - want + 1))
        frame = torch.from_numpy(at[:, None] + np.arange(want) % np.minimum(self.length[i], want)[:, None])
        x = torch.zeros(n, want, BANDS, dtype=torch.uint8, device=self.device)
        for v in np.unique(version):
            some = torch.from_numpy(np.flatnonzero(version == v))
            x[some.to(self.device)] = self.versions[v][frame[some].to(self.device)]
        x = unpacked(x)
        low = np.where(self.rng.random(n) < MASKED, self.rng.integers(BANDS, size=n), BANDS)
        high = low + self.rng.integers(1, 9, n)
        low, high = (torch.from_numpy(k).to(self.device)[:, None, None] for k in (low, high))
        band = torch.arange(BANDS, device=self.device)
        x = torch.where((band >= low) & (band < high), x.mean((1, 2), keepdim=True), x)
        return x, torch.from_numpy(self.classes[i]).to(self.device)


class Loss(nn.Module):
    """targets [classes, size] of unit length"""

    def __init__(self, targets):
        super().__init__()
        self.register_buffer('targets', targets)

    def forward(self, prints, which):
        target = self.targets[which]
        cosine = prints @ self.targets.t()
        own = cosine.gather(1, which[:, None]).clamp(-1 + 1e-6, 1 - 1e-6)
        alike = target @ self.targets.t() > ALIKE
        logits = cosine.masked_fill(alike, -10).scatter(1, which[:, None], torch.cos(torch.acos(own) + MARGIN))
        far = 1 - (prints * target).sum(1)
        return F.cross_entropy(SCALE * logits, which), far.mean()


def classes_of(rows):
    """-> class of each utterance: 0 and up"""
    names = [r['speaker'] if r['person'] else i for i, r in enumerate(rows)]
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names])


def averaged(parameters):
    """Gives the processes the mean of their gradients."""
    flat = torch.cat([p.grad.flatten() for p in parameters]) / dist.get_world_size()
    dist.all_reduce(flat)
    for p, g in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad.copy_(g.view_as(p))


def agreed(done):
    """-> what the first process says"""
    if dist.is_initialized():
        dist.broadcast(done := torch.tensor(done), 0)
        return done.item()
    return done


def main():
    ap = argparse.ArgumentParser(description='Train a voice print.')
    ap.add_argument('features')
    ap.add_argument('speech')
    ap.add_argument('run')
    ap.add_argument('--minutes', type=float, default=60)
    ap.add_argument('--steps', type=int, help='instead of minutes')
    ap.add_argument('--batch', type=int, default=96)
    ap.add_argument('--channels', type=int, default=256)
    ap.add_argument('--rate', type=float, default=RATE)
    ap.add_argument('--threads', type=int, default=1)
    ap.add_argument('--weights', help='continue from these')
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    if 'RANK' in os.environ:
        dist.init_process_group('gloo')
    rank = dist.get_rank() if dist.is_initialized() else 0
    os.makedirs(a.run, exist_ok=True)
    rows = data.load_rows(a.speech)
    classes = classes_of(rows)
    targets = centred(np.load(os.path.join(a.features, 'targets.npy')))[np.unique(classes, return_index=True)[1]]
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    net, loss = Voiceprint(a.channels).to(device), Loss(torch.from_numpy(targets).float()).to(device)
    if a.weights:
        state = torch.load(a.weights, map_location='cpu')
        net.load_state_dict(state['net'])
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=1e-3)
    crops, begun = Crops(a.features, rows, classes, rank, device), time.time()
    saved, steps, sums = begun, 0, torch.zeros(3, device=device)
    print(f'{len(rows)} utterances, {len(crops.of)} people, {len(targets)} classes', flush=True)
    while (done := agreed(steps / a.steps if a.steps else (time.time() - begun) / 60 / a.minutes)) < 1:
        rate = a.rate * min(1, (steps + 1) / WARM) * (.5 - .5 * math.cos(math.pi * min(1, (1 - done) / DECAY)))
        for g in optimiser.param_groups:
            g['lr'] = rate
        x, which = crops.batch(a.batch)
        prints = net.encoder(normalised(x))
        told, far = loss(prints, which)
        optimiser.zero_grad()
        (told + DISTANCE * SCALE / 10 * far).backward()
        if dist.is_initialized():
            averaged(list(net.parameters()))
        nn.utils.clip_grad_norm_(net.parameters(), 1.)
        optimiser.step()
        steps += 1
        sums += torch.stack([told.detach(), far.detach(), torch.ones_like(far)])
        if time.time() - saved > 120:
            saved = time.time()
            crops.look()
            if rank == 0:
                save(a.run, net)
            print(f'{(saved - begun) / 60:.1f} min, {steps} steps: {sums[0] / sums[2]:.3f} {sums[1] / sums[2]:.3f}, '
                  f'{len(crops.versions)} versions', flush=True)
            sums[:] = 0
    if rank == 0:
        save(a.run, net)
        print(f'{steps} steps')


def save(run, net):
    path = os.path.join(run, 'voice.pt')
    torch.save(dict(net=net.state_dict(), shape=(net.encoder.gru.hidden_size, net.encoder.gru.num_layers)),
               path + '.part')
    os.rename(path + '.part', path)


if __name__ == '__main__':
    main()
