"""A model file trained on: the same network as the one it was made of."""
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from test_training import OneClip, config
from training import blend, train
from training.export import export, metadata, steepen, write
from training.network.net import Net, Norm
from training.together import together
from training.unfold import calibrate, state_for, unfold


@pytest.fixture
def net():
    torch.manual_seed(0)
    net = Net(c=8, blocks=2, nt=1, nf=1)
    for p in net.parameters():
        p.data += .1 * torch.randn_like(p)
    for m in net.modules():
        if isinstance(m, Norm):
            m.running_mean.normal_(0, .3)
            m.running_var.uniform_(.5, 2)
    return net.eval()


def close(a, b, part):
    return (a - b).abs().square().mean() < part ** 2 * b.abs().square().mean()


@torch.no_grad()
def test_there_and_back(net, tmp_path):
    path, again = tmp_path / 'a.safetensors', tmp_path / 'b.safetensors'
    export(net, path, 'a')
    back = unfold(path)
    sound = torch.randn(2, 48000)
    owed = net(sound)[2]
    assert close(back(sound)[2], owed, 1e-4)
    calibrate(back, sound)
    assert close(back(sound)[2], owed, 1e-4)
    assert close(back.train()(sound)[2], owed, 1e-3)    # clips that are those of the statistics
    export(back, again, 'a')
    a, b = load_file(path), load_file(again)
    assert a.keys() == b.keys()
    for name in a:
        assert np.allclose(a[name], b[name], rtol=1e-3, atol=1e-4 * np.abs(a[name]).max()), name


def test_a_floor_in_decibels_bounds_the_mask(net):
    assert metadata(net, 'a', '', '')['mask_minimum'] == '0.001'
    for db in -50, -40:
        least = float(metadata(net, 'a', '', '', floor=db)['mask_minimum'])
        assert abs(20 * np.log10(least ** (1 / net.compress)) - db) < .02


@torch.no_grad()
def test_several_networks_are_one_model(net, tmp_path):
    paths = [tmp_path / f'{i}.safetensors' for i in range(3)]
    for path, floor in zip(paths, (None, -50)):
        export(net, path, 'a', floor=floor)
    metadata, tensors = together(paths[:2], 'b')
    assert metadata['name'] == 'b' and metadata['networks'] == '2' and '2.hop' not in metadata
    assert metadata['mask_minimum'] == '0.001' and metadata['2.mask_minimum'] == '0.1778'
    assert len(tensors) == 2 * len(load_file(paths[0])) and (tensors['2.embed.weight'] == tensors['embed.weight']).all()
    write(tmp_path / 'b.safetensors', metadata, tensors)
    sound = torch.randn(1, 24000)
    assert close(unfold(tmp_path / 'b.safetensors')(sound)[2], net(sound)[2], 1e-4)
    export(Net(c=8, blocks=1, nt=1, nf=1, hop=512).eval(), paths[2], 'c')
    with pytest.raises(SystemExit, match='hop'):
        together(paths[1:], 'd')
    with pytest.raises(SystemExit, match='several networks'):
        together([tmp_path / 'b.safetensors', paths[0]], 'd')


@torch.no_grad()
def test_a_steeper_mask_is_steeper_between_two_frequencies(net):
    hz = net.positions_hz()
    assert hz[0] == 0 and hz[32] == 1500 and 8000 < hz[171] < 8500 < hz[-1] < 24000
    sound = torch.randn(1, 24000)
    before, slopes = net(sound)[0], net.slope.clone()
    steepen(net, 1.5, 1500, 3500)
    inside = slice(32, 75)                              # 1500 to 3469 Hz
    assert torch.allclose(net.slope[inside], 1.5 * slopes[inside])
    change = (net(sound)[0] / before - 1).abs().amax((0, 1))
    assert change[inside].min() > 1e-3 and change[:32].max() == 0 and change[75:].max() == 0


AXIS = dict(window=1280, synthesis=1024, hop=512, linear=41, bands=72, constant_q=True)


@torch.no_grad()
def test_bands_of_constant_q_there_and_back(tmp_path):
    torch.manual_seed(0)
    net = Net(c=8, blocks=1, nt=1, nf=1, **AXIS).eval()
    widths = np.diff(net.edges)
    assert net.edges[0] == 41 and net.edges[-1] == 641 and widths[0] == 2 and widths[-1] > 20
    ratio = np.array(net.edges[21:]) / net.edges[20:-1]
    assert ratio.max() < 1.05 and ratio.min() > 1.03
    export(net, tmp_path / 'a.safetensors', 'a')
    back = unfold(tmp_path / 'a.safetensors')
    assert back.cfg == net.cfg
    sound = torch.randn(1, 24000)
    assert close(back(sound)[2], net(sound)[2], 1e-4)


@torch.no_grad()
def test_on_another_axis_each_position_has_the_slope_of_the_nearest(net):
    net.slope.copy_(net.positions_hz())
    other = Net(**net.cfg | AXIS).eval()
    other.load_state_dict(state_for(other, net))
    assert (other.slope - other.positions_hz()).abs().max() < 270      # half of a band above 8 kHz
    assert torch.equal(other.stages[0].freq[0].up.weight, net.stages[0].freq[0].up.weight)
    assert torch.isfinite(other(torch.randn(1, 24000))[2]).all()


@pytest.mark.parametrize('axis', ({}, AXIS))
def test_training_begins_from_what_the_file_computes(net, tmp_path, axis):
    export(net, tmp_path / 'a.safetensors', 'a')
    c = config(0)
    c['network'] = net.cfg | axis
    train.train(c, None, str(tmp_path), weights=str(tmp_path / 'a.safetensors'), device='cpu', mixer=OneClip())
    start, owed = (Net(**c['network']).eval() for _ in range(2))
    start.load_state_dict(torch.load(tmp_path / 'weights.ema')['ema'])
    owed.load_state_dict(state_for(owed, net))
    sound = torch.randn(1, 24000)
    with torch.no_grad():
        assert close(start(sound)[2], owed(sound)[2], 1e-4)


def test_what_was_trained_on_is_blended_with_its_beginning(net, tmp_path, mixer, monkeypatch):
    path, later, out = (str(tmp_path / f) for f in ('a.safetensors', 'b.ema', 'c.ema'))
    export(net, path, 'a')
    begin = unfold(path)
    moved = {k: v + 1 if k in ('slope', 'down.lin.weight') else v for k, v in begin.state_dict().items()}
    torch.save(dict(ema=moved, cfg=net.cfg, step=7), later)
    monkeypatch.setattr('sys.argv', ['blend.py', path, later, '.5', str(tmp_path), out])
    blend.main()
    mixed = torch.load(out)
    assert mixed['step'] == 7
    for k in 'slope', 'down.lin.weight':
        assert torch.allclose(mixed['ema'][k], begin.state_dict()[k] + .5)
    assert torch.equal(mixed['ema']['embed.0.weight'], begin.state_dict()['embed.0.weight'])


def test_other_mixers_are_told(tmp_path):
    export(Net(c=8, blocks=1, nt=1, nf=1, mixer='gru').eval(), tmp_path / 'a.safetensors', 'a')
    with pytest.raises(SystemExit, match='gru'):
        unfold(tmp_path / 'a.safetensors')


def test_what_is_no_model_file_is_named(net, tmp_path):
    path = tmp_path / 'a.safetensors'
    export(net, path, 'a')
    whole = path.read_bytes()
    for damaged in whole[:5000], b'', whole.replace(b'"encoder.0.taps"',
                                                    b'"encoder.0.tops"'), whole.replace(b'"channels":"8"',
                                                                                        b'"channels":"9"'):
        path.write_bytes(damaged)
        with pytest.raises(SystemExit, match=str(path)):
            unfold(str(path))
