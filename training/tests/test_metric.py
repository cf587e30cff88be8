"""The discriminator on a CPU, with the real PESQ beside it."""
import math

import pytest
import torch

from test_training import Reads, config
from training import train
from training.loss import metric as metric_module
from training.loss.metric import Metric
from training.loss.terms import Loss, phases
from training.network.net import Net

pytest.importorskip('pesq')
RATE, SAMPLES = 48000, 48000


def voice(n, seed):
    """[n,SAMPLES]: harmonics that glide, in syllables; enough of speech for PESQ to judge."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(SAMPLES) / RATE
    hz = 100 + 100 * torch.rand(n, 1, generator=g) * (1 + .2 * torch.sin(2 * math.pi * 3 * t))
    turn = 2 * math.pi * hz.cumsum(1) / RATE
    syllables = torch.sin(2 * math.pi * (3 * t + torch.rand(n, 1, generator=g))).clamp_min(0)
    return .1 * syllables * sum(torch.sin(k * turn) / k ** .5 for k in range(1, 30))


class Waits(Metric):
    """Measured at once, so that nothing depends on how quick the machine is."""

    def learn(self, *judged):
        super().learn(*judged)
        for job, _ in self.asked:
            job.wait(60)


@pytest.fixture
def soon(monkeypatch):
    for name, value in dict(FIRST=3, SILENT=0, RISE=1, BATCH=16).items():
        monkeypatch.setattr(metric_module, name, value)


def test_what_pesq_says_is_learnt(soon):
    torch.manual_seed(0)
    metric = Waits('cpu', 1)
    net = Net(c=4, blocks=1, nt=1, nf=1)
    loss = Loss(net, SAMPLES + net.window, 'cpu', phases(config(1, metric=.4)['loss'])[1], metric)
    clean = voice(6, 0)
    noise = torch.randn(6, SAMPLES) * clean.square().mean().sqrt()
    for level in [1, .3, .1, .02] * 8:
        loss.disliked(clean, clean + level * noise)
        metric.learn(*loss.judged)
    assert metric.trust == 1
    resumed = Metric('cpu', 1)
    resumed.load(metric.state())
    maps = torch.rand(2, 2, 50, 171)
    assert resumed.trust == 1 and torch.equal(resumed(maps), metric(maps))
    resumed.close()
    missing = torch.stack([loss.disliked(clean, clean + level * noise) for level in (.02, .3)]).detach()
    metric.close()
    assert missing[0].mean() < missing[1].mean() - .15


class Copying:
    """An event of a GPU that has not yet done what came before it."""
    done = False

    def query(self):
        return self.done


def test_nothing_is_read_before_it_has_left_the_gpu():
    metric, event = Metric('cpu', 1), Copying()
    pair = voice(2, 3)[:, ::3]
    metric.leaving = event, pair, pair, torch.zeros(2, 2, 4, 4)
    metric.learn(pair, pair, torch.zeros(2, 2, 4, 4))   # nothing more leaves while something does
    assert not metric.asked and metric.leaving[0] is event
    event.done = True
    metric.learn(pair, pair, torch.zeros(2, 2, 4, 4))
    assert len(metric.asked) == 1 and metric.asked[0][0].get(60) == pytest.approx([1, 1], abs=.01)
    metric.close()


def test_pairs_that_cannot_be_judged_are_left_out():
    speech = voice(1, 1)[0, ::3].numpy()
    assert metric_module.measured(speech, speech) == pytest.approx(1, abs=.01)
    assert metric_module.measured(0 * speech, speech) is None and metric_module.measured(speech, 0 * speech) is None
    assert metric_module.measured(speech[:2000], speech[:2000]) is None


class Voices:
    gen = torch.Generator()

    def batch(self, n):
        clean = voice(2, 2)
        return clean + .02 * torch.randn(2, SAMPLES), clean, torch.full((2, 1), 24000.), torch.zeros(2, 1)


def test_training_hears_of_it(soon, tmp_path, monkeypatch):
    monkeypatch.setattr(train, 'LOG_EVERY', 2)
    monkeypatch.setattr(train, 'Clock', Reads)
    monkeypatch.setattr(train, 'Metric', Waits)
    c = config(4 / 60, metric=.4)
    c['network']['c'], c['training']['clip_seconds'] = 4, SAMPLES / RATE
    train.train(c, None, str(tmp_path), device='cpu', mixer=Voices())
    lines = [line.split('\t') for line in (tmp_path / 'curve.tsv').read_text().splitlines()]
    heard = [float(line[lines[0].index('metric')]) for line in lines[1:]]
    assert heard[0] == 0 and .02 < heard[-1] < 1
    assert not any('fixed' in k for k in torch.load(tmp_path / 'weights.ema')['ema'])
