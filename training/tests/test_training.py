"""The training loop on a CPU at toy size."""
import math
import os
import time
import shutil

import numpy as np
import pytest
import torch

from training import train
from training.blend import blend, measure
from training.data.clips import RATE, STOCK, Mixer, Pack, faster, lowpass, spectrum
from training.loss.terms import Loss, phases
from training.network.net import Net

SAMPLES = 12000


class OneClip:
    """The same noisy clip for ever: a quarter of a second of a tone that starts late, in noise."""

    def __init__(self, seed=0):
        self.gen = torch.Generator()
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(SAMPLES) / 48000
        self.target = (.2 * torch.sin(2 * torch.pi * 440 * t) * (t > .1))[None]
        self.noisy = self.target + .05 * torch.randn(1, SAMPLES, generator=g)

    def batch(self, n):
        return self.noisy, self.target, torch.full((1, 1), 24000.), torch.zeros(1, 1)


class Reads:
    """A clock that moves one second each time it is read."""

    def __init__(self, used, device):
        self.now = used

    def read(self):
        self.now += 1
        return self.now


def config(minutes, **loss):
    weights = dict(magnitude=9., muffled=3., complex=3., consistency=0., snr=.04, pesq=0., silence=.12, bursts=.1,
                   faint=.1, mos=0., metric=0., critic=0., taught=0., follow=.05) | loss
    return dict(network=dict(c=8, blocks=1, nt=1, nf=1),
                training=dict(clip_seconds=SAMPLES / 48000, batch=1, long_every=0, long_batch=1, learning_rate=3e-3,
                              warmup_steps=5, clip=1., minutes=minutes, decay=.2, save_minutes=9., seed=0),
                loss={k: [w, w] for k, w in weights.items()})


def test_one_clip_is_learnt_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(train, 'LOG_EVERY', 5)
    monkeypatch.setattr(train, 'Clock', Reads)
    clip = OneClip()
    torch.manual_seed(0)
    c = config(7 / 60)
    loss = Loss(Net(**c['network']), SAMPLES, 'cpu', phases(c['loss'])[0])
    before = loss(*clip.batch(1))[0].item()
    loss.net = train.train(c, None, str(tmp_path), device='cpu', mixer=clip)
    after = loss(*clip.batch(1))[0].item()
    assert after < before - .05

    checkpoint = torch.load(tmp_path / 'checkpoint.pt')
    step = checkpoint['step']
    for *_, terms in checkpoint['rows']:                # as if of a loss with other terms
        terms['once'] = terms.pop('critic')
    torch.save(checkpoint, tmp_path / 'checkpoint.pt')
    c['training']['minutes'] = 9 / 60
    train.train(c, None, str(tmp_path), resume=True, device='cpu', mixer=clip)
    resumed = torch.load(tmp_path / 'checkpoint.pt')
    assert resumed['step'] > step
    assert [r[0] for r in resumed['rows']] == sorted({r[0] for r in resumed['rows']})
    lines = [line.split('\t') for line in (tmp_path / 'curve.tsv').read_text().splitlines()]
    at = lines[0].index('critic')
    assert 'once' not in lines[0] and lines[1][at] == 'nan' and lines[-1][at] == '0.00000'
    assert (tmp_path / 'curve.png').exists()
    weights = torch.load(tmp_path / 'weights.ema')
    Net(**weights['cfg']).load_state_dict(weights['ema'])


def test_the_learning_rate_waits_for_the_end():
    t = dict(learning_rate=1., warmup_steps=10, decay=.25)
    rates = {(4, 0): .5, (9, 0): 1, (500, .1): 1, (500, .75): 1, (500, .875): .5, (500, 1): 0, (500, 1.1): 0}
    assert {at: train.rate_at(t, *at) for at in rates} == rates


def test_a_run_goes_on_as_if_nothing_had_been(tmp_path, monkeypatch):
    """Cut off before the learning rate falls, resumed and cut off again: the weights of one run."""
    monkeypatch.setattr(train, 'LOG_EVERY', 1)
    monkeypatch.setattr(train, 'Clock', Reads)
    monkeypatch.setattr(train, 'picture', lambda names, table, path: None)
    c = config(12 / 60)
    c['training']['save_minutes'] = 1.5 / 60

    class CutOff(OneClip):
        def batch(self, n):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().batch(n)

    for left in 5, 6, 99:
        clip = CutOff()
        clip.left = left
        try:
            train.train(c, None, str(tmp_path / 'cut'), resume=left != 5, device='cpu', mixer=clip)
        except KeyboardInterrupt:
            pass
    train.train(c, None, str(tmp_path / 'whole'), device='cpu', mixer=OneClip())
    cut, whole = (torch.load(tmp_path / run / 'checkpoint.pt') for run in ('cut', 'whole'))
    assert cut['step'] == whole['step'] == 12
    assert all(torch.equal(v, whole['net'][k]) for k, v in cut['net'].items())
    assert all(torch.equal(v, whole['ema'][k]) for k, v in cut['ema'].items())


def test_a_run_outlives_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(train, 'LOG_EVERY', 1)
    monkeypatch.setattr(train, 'Clock', Reads)
    clip, out = OneClip(), tmp_path / 'out'
    batch = clip.batch

    def cleaned_up(n):
        shutil.rmtree(out)
        clip.batch = batch
        return batch(n)

    clip.batch = cleaned_up
    torch.set_num_threads(2)
    train.train(config(2 / 60), None, str(out), device='cpu', mixer=clip)
    assert torch.get_num_threads() == 1                 # more wait for each other on a busy machine
    assert {'weights.ema', 'checkpoint.pt', 'curve.tsv'} <= {f.name for f in out.iterdir()}


def test_weights_of_other_windows_are_a_beginning(tmp_path):
    c = config(0)
    before = Net(**c['network'], window=2048, synthesis=1024)
    torch.save(dict(ema=before.state_dict(), cfg=before.cfg), tmp_path / 'before.ema')
    net = train.train(c, None, str(tmp_path), str(tmp_path / 'before.ema'), device='cpu', mixer=OneClip())
    assert net.window == len(net.win) == 1024
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before.parameters(), strict=True))


@pytest.mark.parametrize('most, length', [(1, 1), (4, 4), (6, 5)])
def test_gradients_are_clipped_as_one(most, length):
    net = torch.nn.Linear(1, 1)
    net.weight.grad, net.bias.grad = torch.tensor([[3.]]), torch.tensor([4.])
    assert train.step_gradients(net, 1, most) == 5
    assert torch.allclose(torch.cat([net.weight.grad[0], net.bias.grad]), torch.tensor([.6, .8]) * length)


def one_of_two(rank, out):
    os.environ |= dict(RANK=str(rank), WORLD_SIZE='2', LOCAL_RANK=str(rank), MASTER_ADDR='127.0.0.1',
                       MASTER_PORT='29517')
    torch.set_num_threads(1)
    train.LOG_EVERY, train.Clock = 2, Reads
    net = train.train(config(3 / 60), None, out + str(rank), device='cpu', mixer=OneClip(rank))
    torch.save(list(net.parameters()), f'{out}{rank}.pt')


def resumed(rank, out):
    """A run goes on as the process `rank`."""
    mixer = OneClip()
    os.environ |= dict(RANK=str(rank))
    train.train(config(0), None, out, resume=True, device='cpu', mixer=mixer)
    return mixer.gen.get_state()


def test_resumed_processes_draw_clips_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv('RANK', '0')
    mixer = OneClip()
    torch.rand(3, generator=mixer.gen)
    train.train(config(0), None, str(tmp_path), device='cpu', mixer=mixer)
    states = [resumed(rank, str(tmp_path)) for rank in (0, 1, 2)]
    assert torch.equal(states[0], mixer.gen.get_state())
    assert not any(torch.equal(states[a], states[b]) for a, b in ((0, 1), (0, 2), (1, 2)))


def late(rank, out):
    os.environ |= dict(RANK=str(rank), WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT='29518')
    torch.distributed.init_process_group('gloo')
    time.sleep(2 * rank)
    ready = time.time()
    torch.save([train.Clock(0, 'cpu').start, ready], f'{out}{rank}.pt')


def test_the_clock_starts_when_all_processes_are_ready(tmp_path):
    torch.multiprocessing.spawn(late, (str(tmp_path / 'rank'),), nprocs=2)
    (first, _), (second, last) = (torch.load(tmp_path / f'rank{i}.pt') for i in (0, 1))
    assert first >= last and second >= last


def test_two_processes_stay_together(tmp_path):
    out = str(tmp_path / 'rank')
    torch.multiprocessing.spawn(one_of_two, (out,), nprocs=2)
    a, b = torch.load(out + '0.pt'), torch.load(out + '1.pt')
    assert all(torch.equal(p, q) for p, q in zip(a, b))


def test_blended_weights_have_the_statistics_of_clips():
    torch.manual_seed(0)
    a, b, net = (Net(c=8, blocks=1, nt=1, nf=1) for _ in range(3))
    with torch.no_grad():
        b.down.norm.weight.add_(1)
    mixed = blend(a.state_dict(), b.state_dict(), .25)
    assert torch.allclose(mixed['down.norm.weight'], .75 * a.down.norm.weight + .25 * b.down.norm.weight)
    net.load_state_dict(mixed)
    noisy = .1 * torch.randn(2, SAMPLES)
    measure(net, [noisy])
    with torch.no_grad():
        usual, of_batch = net.eval()(noisy)[2], net.train()(noisy)[2]
    assert torch.allclose(usual, of_batch, atol=2e-3 * of_batch.abs().max())


@pytest.mark.parametrize('clean, coded, share', [(19, 1, .05), (2, 10, .1), (10, 0, 0), (0, 10, 1)])
def test_what_was_coded_is_a_tenth_at_most(tmp_path, clean, coded, share):
    for name, value, n in ('x.i16', 1000, clean), ('x_coded.i16', 2000, coded):
        if n:
            np.full(n * 1000, value, np.int16).tofile(tmp_path / name)
    g = torch.Generator().manual_seed(0)
    x = Pack(str(tmp_path), 'x', RATE, 'cpu').crop(2000, 100, lambda *n: torch.rand(*n, generator=g)) * 32768
    assert ((x == 1000).all(1) | (x == 2000).all(1)).all()     # no crop has both
    assert (x[:, 0] == 2000).float().mean().item() == pytest.approx(share, abs=.02)


def test_wide_audio_is_heard_at_48_khz(tmp_path):
    tone = lambda rate: np.sin(2 * np.pi * 1000 * np.arange(rate) / rate)
    (tone(16000) * 16384).astype(np.int16).tofile(tmp_path / 'x.i16')
    x = Pack(str(tmp_path), 'x', 16000, 'cpu').crop(1, 30000, lambda *n: torch.zeros(*n))[0]
    assert len(x) == 30000 and np.abs(x.numpy() - .5 * tone(48000)[:30000])[200:-200].max() < 2e-3


def test_recorded_noise_is_narrow_now_and_then(mixer):
    x = torch.fft.rfft(mixer.of_length(24000).recording(150)).abs().square()
    high = x[:, 8250:10000].mean(1) / x[:, 500:1500].mean(1)      # above what is twice as fast and equalised
    assert .05 < (high < 1e-4).float().mean() < .45


def test_long_clips_leave_the_batch_norms_alone(mixer, tmp_path, monkeypatch):
    monkeypatch.setattr(train, 'LOG_EVERY', 2)
    monkeypatch.setattr(train, 'Clock', Reads)
    c = config(3 / 60)
    c['training'] |= dict(batch=2, long_every=2, long_batch=1)
    net = train.train(c, None, str(tmp_path), device='cpu', mixer=mixer.of_length(SAMPLES))
    steps = torch.load(tmp_path / 'weights.ema')['step']
    assert steps >= 4 and net.down.norm.num_batches_tracked == steps - steps // 2


class NoGraph:
    def __init__(self, *args):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *error):
        raise RuntimeError('operation not permitted when stream is capturing')


def test_what_cannot_be_captured_goes_on_as_it_was(monkeypatch):
    for name in 'CUDAGraph', 'graph', 'current_stream':
        monkeypatch.setattr(torch.cuda, name, NoGraph)
    torch.manual_seed(0)
    net, clips = Net(c=8, blocks=1, nt=1, nf=1), OneClip().batch(1)
    gradients = train.Gradients(net, Loss(net, SAMPLES, 'cpu', phases(config(1)['loss'])[0]), False)
    gradients(clips)
    before = [p.grad.clone() for p in net.parameters()]
    gradients.capture(clips, None)
    gradients(clips)
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), before))


def test_a_faster_voice_is_higher():
    t = torch.arange(60000) / 48000
    tone = lambda hz, n: torch.sin(2 * torch.pi * hz * t[:n])[None]
    x = torch.cat([tone(400, 60000), tone(3000, 60000)])
    y = faster(x, torch.tensor([[1.15], [.87]]), 48000)
    want = torch.cat([tone(460, 48000), tone(2610, 48000)])
    middle = slice(2000, 46000)
    assert (y - want)[:, middle].square().mean() < 1e-5
    assert torch.allclose(faster(x, torch.ones(2, 1), 48000)[:, middle], x[:, middle], atol=1e-4)


def test_clips_are_finite_and_repeat_with_the_seed(mixer):
    noisy, target, known, start, sung = mixer.make(8)
    assert noisy.shape == target.shape == (8, 96000) and known.shape == start.shape == sung.shape == (8, 1)
    assert noisy.isfinite().all() and noisy.abs().max() <= 1
    mixer.gen.manual_seed(7)
    assert torch.equal(mixer.make(8)[0], noisy)
    mixer.gen.manual_seed(7)
    n = 8 // STOCK
    assert {x.item() for _ in range(STOCK) for x in mixer.batch(n)[0][:, 9]} == {x.item() for x in noisy[:, 9]}
    long, target = mixer.of_length(960000).make(1)[:2]
    assert long.shape == target.shape == (1, 960000) and long.isfinite().all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason='no GPU')
def test_clips_made_ahead_are_those_made_in_turn(mixer, tmp_path):
    def make():
        short = Mixer(str(tmp_path), 96000, 'cuda', 7)
        long = short.of_length(400000)
        return lambda step: (long if step % 8 == 7 else short).batch(2)

    def energies(clips_of):
        found = []
        for step in range(24):
            clips = clips_of(step)
            busy = torch.randn(2048, 2048, device='cuda')
            for _ in range(20):                         # the step reads its clips long after they were given
                busy = busy @ busy / 50
            found.append(torch.stack([x.double().square().sum() for x in clips]))
        return torch.stack(found)

    assert torch.allclose(energies(train.Ahead(make(), 'cuda')), energies(make()), 1e-6)


def test_some_voices_sing_or_laugh(mixer, tmp_path):
    assert not mixer.make(8)[4].any()                   # there are no such recordings
    for name, n in ('full', 200000), ('wide', 30000):   # the second is too short
        np.full(n, 30000, np.int16).tofile(tmp_path / f'voice_{name}.i16')
    mixer = Mixer(str(tmp_path), 96000, 'cpu', 7)
    s, sung = mixer.voices(mixer.full, mixer.sung, 400)
    assert torch.equal(sung[:, 0] > 0, (s == s[:, :1]).all(1)) and .03 < sung.mean() < .09
    assert not mixer.voices(mixer.wide, mixer.sung_wide, 40)[1].any()
    sung = torch.cat([mixer.make(40)[4] for _ in range(8)])[:, 0]
    assert .01 < sung.mean() < .09 and not mixer.voices(mixer.full, mixer.sung, 0)[1].numel()


def test_some_clips_pause_and_some_are_noise_alone(mixer):
    targets = torch.cat([mixer.batch(8)[1] for _ in range(12)])
    e = targets.view(len(targets), -1, 960).square().mean(2)
    quiet = (e < 1e-4 * e.mean(1, keepdim=True)).float().mean(1)
    alone = targets.abs().amax(1) == 0
    assert alone.any() and (quiet[~alone] > .1).float().mean() > .3


def test_what_is_heard_before_a_clip_is_of_another_and_does_not_count(mixer):
    x = torch.arange(64.)[:, None].expand(64, mixer.samples)
    y, start = mixer.after(32, x)
    assert .1 < (start > 0).float().mean() < .6 and start.max() <= mixer.samples / 2
    for row, end in enumerate(start[:, 0].long()):
        before = row - 1 if row % 32 else row + 31      # of the same band
        assert (y[row, :end] == before).all() and (y[row, end:] == row).all()

    torch.manual_seed(0)
    loss = Loss(Net(c=8, blocks=1, nt=1, nf=1).eval(), SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    noisy, clean, known, _ = OneClip().batch(1)
    start = torch.full((1, 1), 6000.)
    value = loss(noisy, clean, known, start)[0]
    clean[:, :4000] += 1
    assert torch.allclose(loss(noisy, clean, known, start)[0], value)
    clean[:, 8000:] += 1
    assert loss(noisy, clean, known, start)[0] > value + .1


def test_pesq_rates_speech_alone():
    net = Net(c=4, blocks=1, nt=1, nf=1)
    loss = Loss(net, SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    silent = torch.zeros(1, SAMPLES // net.hop + 1, dtype=torch.bool)
    # Frame 30 is the first to end in the hop after sample 30 * 256, and begins 768 before it.
    silent[:, 20:30] = True
    clean, y = torch.zeros(1, loss.end), torch.ones(1, loss.end)
    x = loss.spoken(silent, clean, y)[0]
    hops = torch.stack([part.mean() for part in x[:44 * 256].split(256)])
    assert (hops[:20] > .8).all() and (hops[21:26] < .01).all() and (hops[28:44] > .8).all()


def test_a_clip_without_speech_takes_nothing_from_the_others():
    """PESQ divides by the level of what is spoken."""
    pytest.importorskip('torch_pesq')
    torch.manual_seed(0)
    net = Net(c=4, blocks=1, nt=1, nf=1)
    noisy, clean = (x.repeat(2, 3) for x in OneClip().batch(1)[:2])
    known, start = torch.full((2, 1), 24000.), torch.zeros(2, 1)
    clean[1] = 0
    loss = Loss(net, 3 * SAMPLES, 'cpu', phases(config(1, pesq=.1)['loss'])[0])
    value, terms = loss(noisy, clean, known, start)
    value.backward()
    assert all(v.isfinite() for v in terms.values()) and terms['pesq'] > 0
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)


def test_a_spectrum_that_no_sound_has_is_inconsistent():
    net = Net(c=4, blocks=1, nt=1, nf=1)
    loss = Loss(net, SAMPLES, 'cpu', phases(config(1)['loss'])[0])

    def inconsistency(Y):
        m, p = net.features(Y)
        return loss.inconsistency(m, p, net.istft(Y, SAMPLES), torch.ones(1, 1, 1)).item()

    Y = net.stft(OneClip().noisy)
    assert inconsistency(Y) < 1e-6
    assert inconsistency(Y * (torch.arange(Y.shape[1]) % 2)[:, None]) > 1e-3


def test_the_decay_has_weights_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(train, 'LOG_EVERY', 1)
    monkeypatch.setattr(train, 'Clock', Reads)
    used = []
    compute = train.Gradients.compute
    monkeypatch.setattr(train.Gradients, 'compute', lambda self, clips: used.append(self.loss.weights)
                        or compute(self, clips))
    c = config(10 / 60)
    c['loss'] |= dict(faint=[0., .1], consistency=[.5, 0.])
    train.train(c, None, str(tmp_path), device='cpu', mixer=OneClip())
    assert [(w['faint'], w['consistency'], w['complex']) for w in used] == [(0., .5, 3.)] * 9 + [(.1, 0., 3.)] * 1
    rows = [line.split('\t') for line in (tmp_path / 'curve.tsv').read_text().splitlines()]
    at = rows[0].index('consistency')
    assert float(rows[1][at]) > 0 and float(rows[-1][at]) == 0


def test_no_term_grows_with_the_level():
    net = Net(c=8, blocks=1, nt=1, nf=1)
    net.core = lambda x: (.5 * torch.ones_like(x[..., 0]), torch.zeros(*x.shape[:3], 2))
    loss = Loss(net, SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    noisy, clean, known, start = OneClip().batch(1)
    loud, soft = (loss(noisy * gain, clean * gain, known, start)[1] for gain in (4, .4))
    for term in loud:
        assert loud[term].item() == pytest.approx(soft[term].item(), rel=.06), term


def test_faint_speech_counts_as_far_as_it_comes_through():
    loss = Loss(Net(c=4, blocks=1, nt=1, nf=1), SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    C, other = torch.randn(2, 1, 8, 513, dtype=torch.complex64)
    known, faint = torch.full((1, 1), 12000.), torch.tensor([[0, 0, 1, 1, 0, 0, 0, 0.]])
    cut = lambda Y: loss.cut(C, Y, known, faint).item()
    assert abs(cut(C)) < 1e-3 and abs(cut(C + other)) < .2      # noise that comes with it is no matter here
    halved = C * torch.where(faint > 0, .5, 1.)[..., None]
    assert abs(cut(halved) - math.log(1.2 / .7)) < 1e-3 and cut(0 * C) > 1.7
    halved[..., 300:] = 0                               # above what is known
    assert abs(cut(halved) - math.log(1.2 / .7)) < 1e-3
    assert abs(cut(C * (faint > 0)[..., None])) < 1e-3  # no other frame counts


def test_words_may_begin_bright_after_silence(mixer):
    def tone(hz, start, stop):
        sounds = (mixer.ramp >= start * RATE) & (mixer.ramp < stop * RATE)
        return torch.sin(2 * math.pi * hz * mixer.ramp / RATE) * sounds
    voice = tone(200, 0, .8) + tone(200, 1, 2)
    word = (voice + .3 * tone(5000, .8, 1)).repeat(64, 1)
    y = mixer.bright_starts(word)
    at = lambda seconds: round(seconds * RATE)
    assert torch.equal(y[:, at(.81):], word[:, at(.81):]) and y[:, at(.55):at(.79)].abs().max() < 1e-6
    whole = (y[:, :at(.79)].abs().amax(1) == 0).float().mean()
    assert .4 < whole < .95                             # half of the rows, and what is longer than what was before
    assert torch.equal(mixer.bright_starts(voice[None]), voice[None])


def test_some_speech_begins_as_its_recording_does(tmp_path):
    np.arange(30000, dtype=np.int16).tofile(tmp_path / 'x.i16')
    np.array([5000, 29999]).tofile(tmp_path / 'x_starts.i64')
    g = torch.Generator().manual_seed(0)
    pack = Pack(str(tmp_path), 'x', RATE, 'cpu')
    first = pack.crop(2000, 100, lambda *n: torch.rand(*n, generator=g), .4)[:, 0] * 32768
    assert abs((first == 5000).float().mean() - .2) < .05       # the other one is too near the end
    assert abs((first == 29900).float().mean() - .2) < .05


def test_events_come_in_stretches_at_their_own_level(mixer):
    mixer.happened = mixer.noises
    e = mixer.events(60)[:, :96000].view(60, -1, 960).square().mean(2).sqrt()
    assert e.max() < 1.001 and (e.amax(1) > .98).float().mean() > .7    # in some the stretches miss all that happens
    assert .15 < (e.amin(1) < 1e-3).float().mean()


def test_rustle_has_no_lows_and_comes_in_strokes(mixer):
    x = mixer.rustle(20)
    power = torch.fft.rfft(x).abs().square()
    assert (power[:, :1000].mean(1) < .05 * power[:, 8000:].mean(1)).all()
    e = x.view(20, 50, -1).square().mean(2)
    assert (e.amax(1) > 4 * e.mean(1)).float().mean() > .5


def test_a_whisper_has_the_voice_s_spectrum_and_no_tone(mixer):
    tone = sum(torch.sin(2 * math.pi * 150 * k * mixer.ramp / RATE) for k in range(2, 20))[None].repeat(4, 1)
    y = mixer.whispered(tone)
    assert torch.allclose(y.square().mean(1), tone.square().mean(1), rtol=.01)
    tonal = lambda x: (p := torch.fft.rfft(x).abs().square()[:, 2000:5000]).amax(1) / p.mean(1)
    assert (tonal(y) < .1 * tonal(tone)).all()
    power = torch.fft.rfft(y).abs().square()
    assert (power[:, 8000:].sum(1) < .02 * power.sum(1)).all()


def test_a_passage_is_fainter(mixer):
    level = 20 * torch.log10(mixer.fainter(torch.ones(200, 96000)))
    assert (level <= .01).all() and level.min() > -30.01 and (level.amin(1) < -7.9).float().mean() > .9
    assert (level.amax(1) > -.01).float().mean() > .7


def test_thuds_are_low_and_short(mixer):
    x = mixer.thuds(32)
    power = torch.fft.rfft(x).abs().square()
    assert power[:, :1000].sum() > .95 * power.sum()    # under 500 Hz
    e = x.view(32, -1, 4800).square().mean(2)
    assert (e.median(1).values < .1 * e.mean(1)).float().mean() > .5


def test_some_noise_is_of_one_kind(mixer):
    for i, kind in enumerate(('recording', 'babble', 'steady', 'clicks', 'thuds')):
        tone = torch.sin(2 * torch.pi * 1000 * (i + 1) * mixer.ramp / 48000)
        setattr(mixer, kind, lambda n, tone=tone: tone.expand(n, -1))
    noise, babble = mixer.noise(64)
    power = torch.fft.rfft(noise).abs().square()[:, 2000:12000:2000]
    there = power > 1e6                                 # the hiss under all of it has .1
    assert torch.equal(there[:, 1], babble[:, 0] > 0)
    kinds = there.sum(1)
    assert .35 < (kinds == 1).float().mean() < .8 and kinds.max() >= 3


def test_what_happens_sometimes_is_made_for_hardly_more_rows(mixer):
    asked, changed = [], 0

    def change(x):
        asked.append(len(x))
        return -x

    x = 1 + torch.arange(10.)[:, None].expand(10, 4)
    for _ in range(200):
        y = mixer.sometimes(.25, change, x)
        assert torch.equal(y.abs(), x)
        changed += (y[:, 0] < 0).sum().item()
    assert set(asked) == {3} and abs(changed / 2000 - .25) < .03
    few = sum((mixer.sometimes(.1, change, x[:2]) < 0).any(1).sum().item() for _ in range(500))
    assert abs(few / 1000 - .1) < .04


def test_a_third_of_the_noise_is_loud_and_a_third_quiet(mixer):
    quiet = mixer.snr(4000, torch.zeros(4000, 1))
    assert [(quiet < 2.5).float().mean().item(), (quiet > 15).float().mean().item()] == pytest.approx([1 / 3] * 2,
                                                                                                      abs=.03)
    assert quiet.min() < -7 and quiet.max() > 40
    babble = mixer.snr(4000, torch.ones(4000, 1))
    assert babble.min() >= 0 and (babble < 2.5).float().mean().item() == pytest.approx(1 / 3, abs=.03)


def test_babble_is_of_many_voices_in_measured_rooms(mixer):
    taken = [0]

    def crop(pack, n):
        taken[0] += 1
        return mixer.randn(n, mixer.samples)

    mixer.crop = crop
    mixer.responses[:] = 0
    mixer.responses[:, 4800] = 1                        # a room that answers after a tenth of a second
    mixer.responses[mixer.full_rooms:, 4800] = float('nan')    # rooms without a full band
    x = mixer.babble(16)
    assert taken == [12] and not x[:, :4799].abs().max() > 1e-4 and (x[:, 4800:].square().mean(1) > .5).all()


def test_some_clips_begin_with_nothing_and_then_noise(mixer):
    noisy, target, _, start, _ = (torch.cat(x) for x in zip(*(mixer.make(40) for _ in range(4))))
    noisy, target = (x[start[:, 0] == 0] for x in (noisy, target))     # not after another
    silent = (noisy[:, :4700] == 0).all(1)
    assert .01 < silent.float().mean() < .25
    assert noisy[silent].abs().amax(1).min() > 1e-4 and not target[silent, :4700].any()


def test_noise_is_made_where_it_is_heard(mixer):
    asked = {}
    for i, kind in enumerate(('recording', 'babble', 'steady', 'clicks', 'thuds')):
        def tone(n, i=i, kind=kind):
            asked[kind] = asked.get(kind, 0) + n
            return torch.sin(2 * torch.pi * 1000 * (i + 1) * mixer.ramp / 48000).expand(n, -1)
        setattr(mixer, kind, tone)
    n = 200
    there = torch.fft.rfft(mixer.noise(n)[0]).abs().square()[:, 2000:12000:2000] > 1e6
    for i, (kind, share) in enumerate(dict(recording=.65, babble=.1875, steady=.3, clicks=.1125, thuds=.1125).items()):
        assert abs(there[:, i].float().mean() - share) < .1, kind
        assert there[:, i].sum() <= asked[kind] < min(n * 1.1, n * share * 2), kind


def test_noise_of_long_clips_changes(mixer):
    speechless = torch.zeros(6, 1, dtype=torch.bool)
    spread = {}
    for seconds in 3, 18:
        v = mixer.of_length(seconds * 48000).background(6, speechless)
        level = 10 * v.view(6, seconds, -1).square().mean(2).log10()
        spread[seconds] = (level.amax(1) - level.amin(1)).median()
    assert spread[18] > 6 and spread[18] > 1.5 * spread[3]


def test_what_is_scattered_keeps_its_spectrum_and_lasts(mixer):
    x = torch.zeros(1, 96000)
    x[0, 40000:40480] = torch.sin(torch.arange(480) * .3)
    y = mixer.scattered(x)
    power = [torch.fft.rfft(v).abs()[0, 1:-1] for v in (x, y)]
    assert torch.allclose(*power, atol=1e-3 * power[0].max())
    e = y.view(20, -1).square().mean(1)
    assert e.max() < 5 * e.min()


def test_microphones_brighten_and_cut_the_lowest(mixer):
    tone = lambda hz: torch.sin(2 * math.pi * hz * mixer.ramp / RATE).repeat(200, 1)
    level = lambda hz: 10 * torch.log10(mixer.microphone(tone(hz)).square().mean(1) * 2)
    low, middle, high, higher = (level(hz) for hz in (50, 1000, 8000, 16000))
    assert middle.abs().max() < .02                     # decibels
    assert .2 < (high.abs() < .02).float().mean() < .4 and high.max() > 10 and high.max() < 12.01 and higher.max() > 10
    assert .6 < (low.abs() < .02).float().mean() < .8 and low.min() < -15


def test_codecs_leave_holes_and_grain_fills_them(mixer):
    def holes(x):
        power = spectrum(x, 256).abs().square()[..., 200:]
        return (power < .05 * torch.nn.functional.avg_pool2d(power[:, None], (3, 9), 1, (1, 4))[:, 0]).float().mean()

    x = mixer.randn(8, 96000)
    coded = mixer.coded(x)
    again = mixer.regrained(coded)
    assert holes(coded) > 1.5 * holes(x) > 1.2 * holes(again)
    level = [y.square().mean().item() for y in (x, coded, again)]
    assert max(level) < 1.3 * min(level)
    low = [spectrum(y, 256)[:, 9:-9, 2:10] for y in (x, coded)]
    assert torch.allclose(*low, atol=.01 * low[0].abs().max())


def test_some_voices_become_narrower_or_wider(mixer):
    x = torch.randn(64, 96000)
    y, noise = mixer.caller(torch.cat([x, 2 * x], 1)).chunk(2, 1)
    ends = torch.stack([y[:, :4000], y[:, -4000:], noise[:, :4000]], 1)
    power = torch.fft.rfft(ends * torch.hann_window(4000)).abs().square()
    high = 10 * (power[..., 800:].mean(2) / power[..., 80:250].mean(2)).log10()    # above 9.6 kHz, below 3
    high, of_noise = high[:, :2], high[:, 2]
    assert 16 < (of_noise < -60).sum() < 48 and 16 < (of_noise > -3).sum() < 48
    assert torch.allclose(noise.square().mean(1), torch.full((64,), 4.), rtol=.05)    # its level stays
    first, last = (high > -3).mT
    assert (first & ~last & (high[:, 1] < -60)).sum() > 15 and (last & ~first & (high[:, 0] < -60)).sum() > 15
    assert (first | last).sum() > 60                    # what changes at an end has both there
    below = lambda hz: lowpass(y - x, torch.full((64, 1), hz))
    power = lambda v: v[:, 2000:-2000].square().mean(1)
    assert power(below(3000.) - below(1000.)).max() < 1e-4    # what is between stays
    bass = power(below(300.))
    assert (bass > 1e-3).sum() > 15 and (bass < 1e-4).sum() > 15


def test_speech_and_noise_end_at_the_same_frequency(mixer):
    cut = mixer.band(100, 200)
    assert cut.min() >= 3400 and cut.max() == 24000
    assert .3 < (cut[100:] < 8500).float().mean() < .8 and (cut[:100] == 24000).float().mean() > .3


def test_silence_is_worth_its_decibels():
    net = Net(c=8, blocks=1, nt=1, nf=1)
    loss = Loss(net, SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    noise = torch.ones(1, 400, loss.group.shape[1])
    silent = torch.ones(1, 400, dtype=torch.bool)
    silent[:, 188:376] = False
    of = lambda power: loss.silence(power, noise, torch.ones(1, 1), silent)
    for down, owed in (0, 1), (20, 18 / 38), (50, 0):
        assert [x.item() for x in of(noise * 10 ** (-down / 10))] == pytest.approx([owed, owed], abs=.01)

    # Two frames in the first second of three, of which the second has no silence.
    burst = noise * 1e-5
    burst[:, 50:52] = 1
    frames, seconds = (x.item() for x in of(burst))
    assert frames == pytest.approx(2 / 212, abs=.005) and seconds == pytest.approx((38 - 10 * math.log10(94)) / 38 / 2,
                                                                                   abs=.01)


def test_a_breath_is_not_silence_and_is_easily_lost():
    loss = Loss(Net(c=4, blocks=1, nt=1, nf=1), SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    power = torch.tensor([0, -20, -40, -60]).repeat_interleave(10) / 10
    power = (10 ** power)[None, :, None].repeat(1, 1, 3)
    of = lambda: [x[0].view(4, 10).float().mean(1).tolist()
                  for x in loss.silent_and_faint(power, torch.ones(1, 1), torch.ones(1, 40))]
    power[:, 10:20] *= 2                                # 17 dB under the loudest
    assert of() == [[0, 0, 0, 1], [1, 1, 1, 0]]
    loss.second = 0
    assert of() == [[0, 0, 0, 1], [0, 0, 1, 0]]


def of_tones(loss, noisy, clean):
    """The terms for clips [1,n], everything known."""
    return loss(noisy, clean, torch.full((1, 1), 24000.), torch.zeros(1, 1))[1]


def test_what_is_missing_costs_what_is_left_does_not():
    net = Net(c=8, blocks=1, nt=1, nf=1)
    net.core = lambda x: (.5 * torch.ones_like(x[..., 0]), torch.zeros(*x.shape[:3], 2))
    loss = Loss(net, SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    noisy = OneClip().noisy
    assert of_tones(loss, noisy, noisy)['muffled'] > 1e-2 > 1e-9 > of_tones(loss, noisy, noisy * .01)['muffled']


def test_the_first_second_counts_three_times():
    net = Net(c=4, blocks=1, nt=1, nf=1)
    net.core = lambda x: (torch.zeros_like(x[..., 0]), torch.zeros(*x.shape[:3], 2))
    loss = Loss(net, 8 * SAMPLES, 'cpu', phases(config(1)['loss'])[0])
    noise = .1 * torch.randn(1, 8 * SAMPLES)
    early, late = (noise * ((torch.arange(8 * SAMPLES) < 40000) == first) for first in (True, False))
    late[:, :56000] = 0
    early, late = (of_tones(loss, noise, clean)['magnitude'] / (clean != 0).sum() for clean in (early, late))
    assert early / late == pytest.approx(3, rel=.15)


def test_not_finite_gradients_change_nothing():
    net = torch.nn.Linear(2, 2)
    for p in net.parameters():
        p.grad = torch.full_like(p, float('nan'))
    train.step_gradients(net, 1, 1.)
    assert all((p.grad == 0).all() for p in net.parameters())
