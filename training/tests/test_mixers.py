"""What mixes in time: one frame at a time against the whole clip, and what the exporter makes of it."""
import json
import struct

import pytest
import torch

from training.export import export
from training.network.net import Net, make_mixer
from training.network.ssd import CHUNK, ssd, ssd_reference

WORDS = ['mamba', 'mamba2', 'gru', 'lstm']


@pytest.mark.parametrize('word,shape,state,head',
                         [(w, (2, 64, 16), 16, 16) for w in WORDS] + [('mamba2', (2, 64, 192), 64, 64)])
def test_one_frame_at_a_time_is_the_whole_clip(word, shape, state, head):
    torch.manual_seed(4)
    m = make_mixer(word, shape[2], state, head)
    x, carried, steps = torch.randn(shape), None, []
    with torch.no_grad():
        for frame in x.unbind(1):
            y, carried = m.step(frame, carried)
            steps.append(y)
        whole = m(x)
    assert whole.shape == shape
    assert (torch.stack(steps, 1) - whole).abs().max() < 1e-5


@pytest.mark.parametrize('frames', [1, CHUNK, 2 * CHUNK + 5])
def test_ssd_in_chunks_is_its_definition(frames):
    torch.manual_seed(5)
    r = lambda *shape: torch.randn(*shape, dtype=torch.float64)
    inputs = [r(2, frames, 3, 4), r(2, frames, 3).exp(), -r(3).exp(), r(2, frames, 5), r(2, frames, 5)]
    mine, exact = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
    y, z = ssd(*mine), ssd_reference(*exact)
    assert torch.allclose(y, z)
    g = r(*y.shape)
    y.backward(g)
    z.backward(g)
    assert all(torch.allclose(a.grad, b.grad) for a, b in zip(mine, exact))


@pytest.mark.parametrize('word', WORDS)
def test_the_future_changes_nothing_before_it(word):
    torch.manual_seed(6)
    net = Net(c=16, blocks=1, nt=1, nf=1, rate=16000, window=400, hop=100, linear=201, bands=0, mixer=word).eval()
    x = torch.randn(2, 100, 201, 3)
    y = x.clone()
    y[:, 60:] = torch.randn(2, 40, 201, 3)
    with torch.no_grad():
        (mask, rotation), (mask2, rotation2) = net.core(x), net.core(y)
    assert mask.shape == (2, 100, 201) and rotation.shape == (2, 100, 201, 2)
    assert mask.isfinite().all() and rotation.isfinite().all()
    assert torch.allclose(mask[:, :60], mask2[:, :60], atol=1e-6) and torch.allclose(rotation[:, :60],
                                                                                     rotation2[:, :60], atol=1e-6)
    assert not torch.allclose(mask[:, 60:], mask2[:, 60:])


@pytest.mark.parametrize('word', WORDS)
def test_a_word_in_the_file_says_which(word, tmp_path):
    net, path = Net(c=16, blocks=1, nt=1, nf=1, mixer=word), tmp_path / 'm.safetensors'
    export(net, path, word)
    data = path.read_bytes()
    metadata = json.loads(data[8:8 + struct.unpack('<Q', data[:8])[0]])['__metadata__']
    assert metadata['mixer'] == word
    assert ('head' in metadata) == (word == 'mamba2') and ('d_state' in metadata) == word.startswith('mamba')
    Net(**net.cfg).load_state_dict(net.state_dict())


@pytest.mark.parametrize('word', ['gru', 'lstm'])
def test_cudnn_has_gradients_where_batch_norms_use_averages(word):
    net = Net(c=16, blocks=1, nt=1, nf=1, mixer=word).eval()
    assert net.stages[0].time[0].mixer.rnn.training and not net.down.norm.training


@pytest.mark.parametrize('word', WORDS)
def test_every_parameter_is_learnt(word):
    torch.manual_seed(7)
    m = make_mixer(word, 16, 16, 16)
    m(torch.randn(2, 9, 16)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.abs().sum() > 0 for p in m.parameters())
