"""The discriminator of clean speech on a CPU."""
import pytest
import torch

from test_metric import RATE, SAMPLES, Voices, voice
from test_training import Reads, config
from training import train
from training.loss import critic as critic_module, metric as metric_module
from training.loss.critic import Critic
from training.loss.terms import Loss, phases
from training.network.net import Net


@pytest.fixture
def soon(monkeypatch):
    for name, value in dict(SILENT=0, RISE=1).items():
        monkeypatch.setattr(metric_module, name, value)
    monkeypatch.setattr(critic_module, 'WINDOWS', (512, 256))


def far(loss, clean, y):
    """How far y is from being taken for clean, as a number."""
    return loss.unlike(clean, y).detach().mean().item()


def test_noise_is_told_from_speech(soon):
    torch.manual_seed(0)
    net = Net(c=4, blocks=1, nt=1, nf=1)
    critic = Critic('cpu')
    loss = Loss(net, SAMPLES + net.window, 'cpu', phases(config(1, critic=1.)['loss'])[1], None, critic)
    clean = voice(4, 0)
    noise = torch.randn(4, SAMPLES) * clean.square().mean().sqrt()
    assert far(loss, clean, clean + noise) == 0         # nothing is learnt yet
    for level in [1, .3, .1] * 6:
        loss.unlike(clean, clean + level * noise)
        critic.learn(*loss.told)
    new = voice(4, 1)                                   # and not only of clips that it has learnt from
    assert far(loss, new, new) < far(loss, new, new + .1 * noise) < far(loss, new, new + noise)
    y = (new + .3 * noise).requires_grad_()
    loss.unlike(new, y).sum().backward()
    heard = y.grad.square().sum(1)
    assert (heard[::2] > 0).all() and (heard[1::2] == 0).all()      # every second clip speaks for two
    resumed = Critic('cpu')
    resumed.load(critic.state())
    assert resumed.trust == 1 and torch.equal(resumed(*loss.told), critic(*loss.told))


def test_a_clip_without_speech_teaches_nothing(soon):
    net = Net(c=4, blocks=1, nt=1, nf=1)
    loss = Loss(net, SAMPLES + net.window, 'cpu', phases(config(1, critic=1.)['loss'])[1], None, Critic('cpu'))
    loss.unlike(torch.zeros(2, SAMPLES), torch.randn(2, SAMPLES))
    assert torch.equal(*loss.told)


def test_training_hears_of_it(soon, tmp_path, monkeypatch):
    monkeypatch.setattr(train, 'LOG_EVERY', 2)
    monkeypatch.setattr(train, 'Clock', Reads)
    c = config(4 / 60, critic=1.)
    c['network']['c'], c['training']['clip_seconds'] = 4, SAMPLES / RATE
    train.train(c, None, str(tmp_path), device='cpu', mixer=Voices())
    lines = [line.split('\t') for line in (tmp_path / 'curve.tsv').read_text().splitlines()]
    heard = [float(line[lines[0].index('critic')]) for line in lines[1:]]
    assert heard[0] == 0 and heard[-1] > .02
    before = torch.load(tmp_path / 'checkpoint.pt', weights_only=False)
    train.train(c | dict(training=c['training'] | dict(minutes=6 / 60)), None, str(tmp_path), device='cpu',
                   resume=True, mixer=Voices())
    after = torch.load(tmp_path / 'checkpoint.pt', weights_only=False)
    assert after['critic']['opt']['param_groups'][0]['lr'] < critic_module.LEARNING_RATE    # in the decay
    assert after['critic']['learnt'] == before['critic']['learnt'] + after['step'] - before['step'] > 0
