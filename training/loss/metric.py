"""A discriminator that learns what WB-PESQ (ITU-T P.862.2) says of the network's output, for the network to please:
MetricGAN (Fu et al., ICML 2019, arXiv 1905.04874), in a form near CMGAN's (Cao, Abdulatif and Yang, Interspeech 2022,
arXiv 2203.15149).

The measure itself runs in processes of its own; the discriminator learns from the pairs that it has finished, of the
last some hundred steps. Every process of a training has a discriminator of its own; a checkpoint has the first one's.
"""
import multiprocessing

import torch
import torch.nn as nn
from torch.func import functional_call

KEPT, FIRST = 4096, 600                                 # pairs it learns from; how many there must be at the beginning
BATCH, EQUAL = 32, 4                                    # pairs a step, and how many of them have the clean clip twice
SILENT, RISE = 200, 300                                 # its steps before it counts, and until it counts in full
BEST = 4.644                                            # WB-PESQ of two equal files


def trust(learnt):
    """The weight of the discriminator's output in the network's loss after this many steps."""
    return min(1, max(0, (learnt - SILENT) / RISE))


def measured(clean, y):
    """0 for the worst WB-PESQ (1), 1 for the best; None where there is no speech to judge. Both at 16 kHz."""
    from pesq import PesqError, pesq
    try:
        return (pesq(16000, clean, y, 'wb') - 1) / (BEST - 1)
    except (PesqError, ValueError):                     # the latter of silence
        return None


class Discriminator(nn.Module):
    """[N,2,T,F], compressed magnitudes of a clean clip and of another -> [N], 0 to 1."""

    def __init__(self, c=16):
        super().__init__()
        layers, before = [], 2
        for i, size in enumerate((5, 5, 3, 3)):
            layers += [nn.Conv2d(before, c << i, size, 2, size // 2), nn.InstanceNorm2d(c << i, affine=True),
                       nn.PReLU(c << i)]
            before = c << i
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(before, before), nn.LeakyReLU(.2), nn.Linear(before, 1), nn.Sigmoid())

    def forward(self, x):
        h = self.body(x)
        return self.head(.5 * (h.mean((2, 3)) + h.amax((2, 3))))[:, 0]


class Learner:
    """A discriminator `net` that learns beside the network, and `trust`, how much of what it says counts yet."""

    def __init__(self, net, rate, device):
        self.net = net
        self.opt = torch.optim.AdamW(net.parameters(), rate, betas=(.8, .99), fused=device != 'cpu')
        self.trust, self.learnt = torch.zeros((), device=device), 0

    def step(self, value):
        """Takes one step towards a smaller value."""
        self.opt.zero_grad()
        value.backward()
        self.opt.step()
        self.learnt += 1
        self.trust.fill_(trust(self.learnt))

    def state(self):
        """-> state for a checkpoint, without the clips to learn from."""
        return dict(net=self.net.state_dict(), opt=self.opt.state_dict(), learnt=self.learnt)

    def load(self, state):
        """Restores what state() returned."""
        self.net.load_state_dict(state['net'])
        self.opt.load_state_dict(state['opt'])
        self.learnt = state['learnt']
        self.trust.fill_(trust(self.learnt))


class Metric(Learner):
    """metric(maps [N,2,T,F]) -> [N]: how far the score is below the best; 0 until the discriminator has learnt."""

    def __init__(self, device, workers):
        super().__init__(Discriminator().to(device), 5e-4, device)
        self.device = device
        self.pool = multiprocessing.get_context('spawn').Pool(workers)
        self.fixed = {k: v.detach() for k, v in self.net.named_parameters()}
        self.asked, self.leaving, self.kept, self.turn = [], None, 0, 0

    def __call__(self, maps):
        return self.trust * (1 - functional_call(self.net, self.fixed, maps))

    def keep(self, maps, scores):
        """Adds pairs to learn from: maps [n,2,T,F], and a score or None for each."""
        if not self.kept:
            self.maps = torch.empty(KEPT, *maps.shape[1:], dtype=torch.float16, device=self.device)
            self.scores = torch.empty(KEPT, device=self.device)
        good = [i for i, s in enumerate(scores) if s is not None]
        at = (self.kept + torch.arange(len(good), device=self.device)) % KEPT
        self.maps[at], self.scores[at] = maps[good], torch.tensor([scores[i] for i in good], device=self.device)
        self.kept += len(good)

    def send(self):
        """Hands clips to the processes once the GPU has copied them; does not wait, or the GPU would wait for the
        host."""
        there, clean, y, maps = self.leaving
        if there is None or there.query():
            self.asked.append((self.pool.starmap_async(measured, list(zip(clean.numpy(), y.numpy())), 1), maps))
            self.leaving = None

    def learn(self, clean, y, maps):
        """One step; every second time these clips, [N,n] at 16 kHz, are sent to be measured, unless the processes are
        late."""
        while self.asked and self.asked[0][0].ready():
            scores, of = self.asked.pop(0)
            self.keep(of, scores.get())
        self.turn += 1
        if self.turn % 2 and len(self.asked) < 4 and not self.leaving:
            clean, y = (x.clamp(-1, 1).to('cpu', non_blocking=True) for x in (clean, y))
            there = None if self.device == 'cpu' else torch.cuda.current_stream().record_event()
            self.leaving = there, clean, y, maps.half().clone()
        if self.leaving:
            self.send()
        if self.kept < FIRST:
            return
        i = torch.randint(0, min(self.kept, KEPT), (BATCH,), device=self.device)
        x, score = self.maps[i].float(), self.scores[i]
        x[:EQUAL, 1], score[:EQUAL] = x[:EQUAL, 0], 1
        self.step((self.net(x) - score).square().mean())

    def close(self):
        """Ends the processes."""
        self.pool.terminate()
