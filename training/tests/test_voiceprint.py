"""Voice prints: windows, files, error rates, what is heard in training and what is judged."""
import json
import struct
import sys

import numpy as np
import pytest
import torch

soundfile = pytest.importorskip('soundfile')
from training.data.prepare import for_judging
from training.export import write
from training.voiceprint import conditions, data, evaluate, export, features, network, train

RATE = network.RATE


def tones(hz, seconds, seed):
    """A voice of sorts."""
    rng, t = np.random.default_rng(seed), np.arange(int(seconds * RATE)) / RATE
    x = sum(np.sin(2 * np.pi * k * hz * t + rng.uniform(0, 6)) / k for k in range(1, 30)) * (np.sin(17 * t) > -.6)
    return (.1 * x + 1e-3 * rng.standard_normal(len(t))).astype(np.float32)


@pytest.fixture
def net():
    torch.manual_seed(0)
    net = network.Voiceprint(32)
    torch.nn.init.uniform_(net.encoder.act.weight, 0, 1)
    return net.eval()


def test_it_has_fewer_than_a_million_parameters():
    assert sum(p.numel() for p in network.Voiceprint().parameters()) < 1e6


def test_bands_and_features_at_any_level():
    bands = network.mel_bands()
    assert torch.allclose(bands.sum(1), torch.ones(network.BANDS)) and (bands >= 0).all()
    assert (bands.argmax(1).diff() >= 0).all()
    x = torch.from_numpy(tones(120, 2, 0))[None]
    f = network.Features()(x)
    assert f.shape == (1, features.frames(x.shape[1]), network.BANDS)
    assert torch.allclose(f, network.Features()(x / 50), atol=1e-4)
    assert network.normalised(f).reshape(1, -1, network.BANDS).mean(1).abs().max() < 1e-4


def test_windows_overlap_and_end_with_the_sound():
    x = torch.arange(100000.)
    w = network.windows_of(x)
    assert w.shape == (5, network.SPAN) and w[-1, -1] == x[-1]
    assert w[:, 0].tolist() == [0, 19200, 38400, 57600, 61600]
    assert network.windows_of(x[:20000]).shape == (1, 20000) and len(network.windows_of(x[:network.SPAN])) == 1


def test_a_print_is_of_the_windows_that_count(net):
    x = torch.from_numpy(tones(120, 4.8, 1))
    p = net.print_of(x)
    assert p.norm() == pytest.approx(1, abs=1e-5)
    quiet = torch.cat([x, x[:2 * network.SPAN] * 1e-3])
    assert len(network.windows_of(quiet)) == 7
    loud = net(network.windows_of(quiet)[:4])
    assert torch.allclose(net.print_of(quiet), torch.nn.functional.normalize(loud.sum(0), dim=0), atol=1e-5)
    assert torch.allclose(net.prints_of([quiet, x[:20000], x])[2], p, atol=1e-5)
    assert net.print_of(torch.zeros(50000)) is None and net.print_of(x[:network.LEAST - 1]) is None


def test_a_file_holds_the_whole_print(net, tmp_path):
    path, x = str(tmp_path / 'a.safetensors'), torch.from_numpy(tones(120, 3, 1))
    write(path, export.metadata(net, name='a', licence='none', training='none'), export.tensors(net))
    assert torch.equal(export.load(path).print_of(x), net.print_of(x))
    with open(path, 'rb') as f:
        header = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
    meta = header.pop('__metadata__')
    assert meta['format'] == 'primeknet-voice-1' and meta['channels'] == '32' and meta['floor'] == '0.01'
    assert header['gru.1.state.weight']['shape'] == [96, 32]
    assert header['in.weight']['shape'] == [32, network.STACK * network.BANDS]
    meta['hop'] = '80'
    write(path, meta, export.tensors(net))
    with pytest.raises(SystemExit, match='hop'):
        export.load(path)


def test_a_gru_is_that_of_the_model_format(net):
    x, g = torch.randn(1, 5, 32), net.encoder.gru
    want = g(x)[0]
    t = export.tensors(net)
    for i in range(2):
        h, out = torch.zeros(32), []
        for v in x[0]:
            a, b = ((torch.from_numpy(t[f'gru.{i}.{k}.weight']) @ y + torch.from_numpy(t[f'gru.{i}.{k}.bias'])).chunk(3)
                    for k, y in (('in', v), ('state', h)))
            k = torch.sigmoid(a[1] + b[1])
            h = (1 - k) * torch.tanh(a[2] + torch.sigmoid(a[0] + b[0]) * b[2]) + k * h
            out.append(h)
        x = torch.stack(out)[None]
    assert torch.allclose(x, want, atol=1e-5)


def test_equal_error_rates():
    rate = lambda same, other: evaluate.equal_error(np.array(same + other, float),
                                                    np.array([True] * len(same) + [False] * len(other)))
    assert rate([3, 4], [1, 2]) == pytest.approx(0, abs=1e-9)
    assert rate([1, 2], [3, 4]) == pytest.approx(1)
    assert rate([1, 4, 5, 6], [0, 2, 2, 5.5]) == pytest.approx(.25)
    rng = np.random.default_rng(0)
    s = np.concatenate([rng.standard_normal(20000) + 2, rng.standard_normal(20000)])
    same = np.arange(40000) < 20000
    assert evaluate.equal_error(s, same) == pytest.approx(.1587, abs=.005)
    assert evaluate.equal_error(s, same, np.where(same, 3., .2)) == pytest.approx(.1587, abs=.005)


def test_an_interval_is_of_people():
    rng = np.random.default_rng(1)
    people, tests = 20, 4
    i, j, k = (a.ravel() for a in np.meshgrid(*map(np.arange, (people, people, tests)), indexing='ij'))
    hard = rng.standard_normal(people) * 2              # some are recognised always, some never
    score = np.where(i == j, 2 + hard[i], 0) + .1 * rng.standard_normal(len(i))
    low, high = evaluate.interval(score, i == j, i, j)
    rate = evaluate.equal_error(score, i == j)
    assert low < rate < high and high - low > .1
    assert evaluate.interval(score, i == j, i, j, against=score) == pytest.approx((0, 0))


@pytest.fixture
def folder(tmp_path):
    """Six people of whom training has not heard, one whom it has; noise and two rooms."""
    tmp_path, rooms = tmp_path / 'recordings', tmp_path / 'rooms'
    rng = np.random.default_rng(0)
    for k, who in enumerate(('a', 'b', 'c', 'd', 'e', 'f', 'SPEAKER9649')):
        place = tmp_path / 'speech/speechocean762' / who
        place.mkdir(parents=True)
        for i in range(4):
            soundfile.write(place / f'{i}.wav', tones(90 + 20 * k, 4, i), RATE)
    (tmp_path / 'noise/house/-').mkdir(parents=True)
    soundfile.write(tmp_path / 'noise/house/-/a.wav', .1 * rng.standard_normal(3 * RATE), RATE)
    names = [next(f'{i}' for i in range(100) if for_judging(f'house/{i}') == judging) for judging in (False, True)]
    h = np.zeros((2, 24000))
    h[:, 12] = .9
    h[1, 6000] = .8
    soundfile.write(f'{rooms}.flac', h.ravel(), 48000)
    rooms.with_suffix('.tsv').write_text('room\tsource\tplace\n' + ''.join(f'{i}\thouse\t{n}\n'
                                                                   for i, n in enumerate(names)))
    return tmp_path


class Inline:
    def map(self, f, items, chunksize=1):
        return map(f, items)


def test_rooms_to_train_and_to_judge_with_differ(folder):
    ours, theirs = (conditions.rooms(str(folder / '../rooms'), judging) for judging in (False, True))
    assert len(ours) == len(theirs) == 1 and ours.shape[1] == 8000
    assert np.abs(ours[0, 1900:2100]).max() < .01 < .2 < np.abs(theirs[0, 1900:2100]).max()


def test_conditions_keep_the_voice(folder):
    x, rng = tones(120, 2, 0), np.random.default_rng(0)
    random = conditions.Conditions(conditions.rooms(str(folder / '../rooms'), False), conditions.noises(str(folder)),
                                   (x * 32767).astype(np.int16))
    for _ in range(20):
        y = random(x, rng)
        assert y.shape == x.shape and np.isfinite(y).all() and .05 < np.abs(y).max() <= 1.5
    noisy = conditions.changed(x, noise=rng.standard_normal(len(x)), snr_db=10)
    gain = (noisy @ x) / (x @ x)
    assert 10 * np.log10((gain * x) @ (gain * x) / ((noisy - gain * x) ** 2).sum()) == pytest.approx(10, abs=.5)
    for codec in conditions.CODECS:
        assert np.corrcoef(conditions.coded(x, codec), x)[0, 1] > .8


def test_pauses_go_and_short_recordings_are_joined(folder):
    x = tones(120, 1, 0)
    assert len(data.spoken(np.concatenate([x, np.zeros(3 * RATE, np.float32), x]))) < 3 * RATE
    found = [('speechocean762', w, str(folder / f'speech/speechocean762/{w}/{i}.wav')) for w in 'ab' for i in range(4)]
    made = list(data.utterances(found, Inline()))
    assert {m[1] for m in made} == {'speechocean762/a', 'speechocean762/b'} and all(m[2] for m in made)
    assert min(len(m[4]) for m in made[:1]) >= data.UTTERANCE * RATE
    assert data.person('x', 'libri-12') == data.person('y', 'libri-12') == ('libri-12', True)
    assert not data.person('robotutor-en', 'story')[1] and not data.person('cv-korliu', '-')[1]


def test_nobody_is_judged_whom_training_has_heard(folder, capsys):
    found = evaluate.people(str(folder), Inline())
    assert set(found['speechocean762']) == set('abcdef')
    trials = evaluate.Trials(found, conditions.rooms(str(folder / '../rooms'), True), conditions.noises(str(folder)))
    assert len(trials.names) == 6 and set(trials.tests) == set(evaluate.CONDITIONS) - {'other session'}
    system = lambda sounds: [np.array([np.abs(np.fft.rfft(x, 8000)[45 + 10 * k]) for k in range(6)]) for x in sounds]
    prints = {c: p / np.linalg.norm(p, axis=1, keepdims=True) for c, p in trials.prints(system).items()}
    score, same, i, j = trials.scores(prints, 'clean')
    assert same.sum() * 5 == (~same).sum() and (same == (i == j)).all()
    assert evaluate.equal_error(score, same) < .05
    assert evaluate.equal_error(np.random.default_rng(0).permutation(score), same) > .2
    evaluate.report(trials, {'a': prints, 'b': prints})
    rows = [line.split('\t') for line in capsys.readouterr().out.splitlines()]
    assert [r[0] for r in rows[1:]] == [*trials.tests, 'clean, speechocean762']
    assert rows[1][4].endswith('+0.0 to +0.0 to a')


def test_sessions_of_librispeech_are_kept_apart():
    takes = [(f'{k}_12-{chapter}-000{k}.flac', np.full(4 * RATE, chapter)) for k in range(2) for chapter in (7, 8)]
    enrolment, rest, other = evaluate.parted(takes)
    assert other and set(enrolment) == {7} and set(rest) == {8}
    assert evaluate.parted(takes[:1]) is None


def test_training_learns(folder, tmp_path, monkeypatch):
    speech, out, run = (str(tmp_path / n) for n in ('packed', 'features', 'run'))
    found = [('speechocean762', w, str(folder / f'speech/speechocean762/{w}/{i}.wav')) for w in 'abcdef'
             for i in range(4)]
    data.write(speech, data.utterances(found, Inline()))
    rows = data.load_rows(speech)
    monkeypatch.setattr(sys, 'argv', ['', speech, str(folder / '../rooms'), str(folder), out, '--versions', '1'])
    features.main()
    first = np.fromfile(out + '/features_0.u8', np.uint8).reshape(-1, network.BANDS)
    assert len(first) == sum(features.frames(r['samples']) for r in rows)
    rng = np.random.default_rng(0)
    classes = train.classes_of(rows)
    assert classes.max() == 5
    targets = rng.standard_normal((6, network.SIZE)).astype(np.float32)
    np.save(out + '/targets.npy', targets[classes])
    monkeypatch.setattr(sys, 'argv', ['', out, speech, run, '--steps', '150', '--batch', '12', '--channels', '32'])
    train.main()
    monkeypatch.setattr(sys, 'argv', ['', run + '/voice.pt', run + '/a.safetensors', '--name', 'a', '--licence', 'b',
                                      '--training', 'c'])
    export.main()
    net = export.load(run + '/a.safetensors')
    want = torch.from_numpy(train.centred(targets[classes])[np.unique(classes, return_index=True)[1]])
    speech, rows = data.load(speech)
    right = [(net.print_of(torch.from_numpy(speech[r['start']:r['start'] + r['samples']] / 32768).float())
              @ want.T).argmax().item() == c for r, c in zip(rows, classes)]
    assert np.mean(right) > .6
