"""python3 -m training.fixtures OUT_DIR: what tests/unit/net/test_net.c holds the engine against.

For small networks of random weights, NAME.safetensors, the model; NAME.blocks, the maps between the blocks, frame by
frame from zero state; NAME.output, some seconds through the whole network. The input is the formula below, the same to
the bit in C. For time stages in shapes of their own, NAME.safetensors and NAME.time, input and output frame by frame.
All but the models is little-endian float32.
"""
import os, sys
import numpy as np, torch

from training.export import export
from training.network.net import GRU, LSTM, Net

FRAMES = 20  # more than the 17 that a dense block of depth 4 looks over
TINY = dict(rate=8000, window=32, hop=16, linear=3, bands=2)  # two positions after the stride-2 convolution
NETWORKS = {  # geometry, mixer, seconds
    'wide': (dict(rate=48000, window=1024, hop=256, linear=171, bands=30), 'mamba', 10),
    'narrow': (dict(rate=16000, window=400, hop=100, linear=201, bands=0), 'mamba', 10),
    'long-hop': (dict(rate=48000, window=1024, hop=512, linear=3, bands=2), 'mamba', 2),
    'low-delay': (dict(rate=8000, window=64, synthesis=32, hop=16, linear=3, bands=2), 'mamba', 2),
    'mamba2': (TINY, 'mamba2', 2),
    'gru': (TINY, 'gru', 2),
    'lstm': (TINY, 'lstm', 2)}
STAGES = {  # [2 positions, frames, channels]
    **{f'{mixer}-16': (64, dict(c=16, mixer=mixer)) for mixer in ('mamba', 'mamba2', 'gru', 'lstm')},
    **{f'{mixer}-64': (100, dict(c=64, mixer=mixer)) for mixer in ('mamba', 'mamba2', 'gru', 'lstm')},
    'mamba2-192': (64, dict(c=192, mixer='mamba2', state=64, head=64))}


def signal(n):
    """Noise from a 32-bit congruential generator, louder and softer by turns: full of everything, silent now and
    then."""
    state, out = 1, np.empty(n, np.float32)
    for i in range(n):
        state = (1664525 * state + 1013904223) % 2 ** 32
        level = (0, 1, 16, 4)[i // 4000 % 4]
        out[i] = ((state >> 16) - 32768) * level / 2 ** 20
    return torch.from_numpy(out)


def shake(net):
    """Nothing stays at the value that training starts from: a fixture must notice every parameter."""
    g = torch.Generator().manual_seed(3)
    noise = lambda t, s: t.add_(torch.randn(t.shape, generator=g) * s)
    for name, p in net.named_parameters():
        noise(p.data, .02 if name.endswith(('weight', 'w')) and p.dim() == 2 else .1)
    for up in (net.mask_up, net.phase_up):
        noise(up.head.weight.data, .5)
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm1d):
            noise(m.running_mean, .2)
            m.running_var.mul_(torch.exp(torch.randn(m.running_var.shape, generator=g) * .3))


def blocks(net, w):
    """The maps between the blocks, [FRAMES, ...] each, in the order in which they are written."""
    X = net.stft(w)
    m, phase = net.features(X)
    z = torch.nn.functional.pad(phase, (0, net.bands))
    maps = [torch.stack([m, m * z.real, m * z.imag], -1)]
    maps.append(net.embed(maps[-1]))
    maps.append(net.enc(maps[-1]))
    maps.append(net.down(maps[-1]))
    for stage in net.stages:
        maps.append(stage.along_time(maps[-1]))
        maps.append(stage.along_frequency(maps[-1]))
    mask, rotation = net.core(maps[0])
    return maps + [mask, rotation]


def coarse(net):
    """Weights that float16 holds, folded or not: one of two linear layers in a row is 1, norms neither scale nor shift,
    and all that the time stage has not is 0."""
    for p in net.parameters():
        p.data.zero_()
    g = torch.Generator().manual_seed(5)
    for m in net.stages[0].time:
        for name, p in m.named_parameters():
            p.data = torch.randn(p.shape, generator=g) / (p.shape[1] ** .5 if p.dim() == 2 else 4)
        mixer = m.mixer
        for p in (m.n1.bias, m.n2.bias, m.inp.bias):
            p.data.zero_()
        for p in (m.n1.weight, m.n2.weight) + ((mixer.norm.weight,) if hasattr(mixer, 'norm') else ()):
            p.data.fill_(1)
        for p in (m.b1, m.b2):
            p.data.fill_(.25)
        m.inp.weight.data = torch.eye(len(m.inp.weight))
        if not isinstance(mixer, (GRU, LSTM)):
            m.out.weight.data = torch.eye(len(m.out.weight))
            mixer.A_log.data = mixer.A_log.data.mul(2).exp().mul(64).ceil().div(64).log()
        for name, p in m.named_parameters():
            if not name.endswith('A_log'):
                p.data = p.data.mul(64).round().div(64)
    net.stages[0].bt.data.fill_(.5)


def network(path, geometry, mixer, seconds):
    """Writes a small network, PATH.safetensors; what it makes of a signal, PATH.output; and, for FRAMES frames, what
    each of its parts gives, PATH.blocks. `seconds` of signal; all float32."""
    torch.manual_seed(7)
    net = Net(c=16, blocks=2, nt=1, nf=1, mixer=mixer, **geometry)
    shake(net)
    net.eval()
    export(net, path + '.safetensors', os.path.basename(path))
    n = seconds * net.cfg['rate'] // net.hop * net.hop
    w = signal(n)[None]
    with torch.no_grad():
        whole = net.istft(net(w)[2], n - (net.synthesis - net.hop))[0]     # all samples that are complete
        few = blocks(net, w[:, 3000:3000 + FRAMES * net.hop])
    with open(path + '.output', 'wb') as f:
        f.write(whole.numpy().astype('<f4').tobytes())
    with open(path + '.blocks', 'wb') as f:
        for t in range(FRAMES):
            for block in few:
                f.write(block[0, t].contiguous().numpy().astype('<f4').tobytes())
    gain = few[-2]
    print(os.path.basename(path), 'mask', gain.min().item(), gain.max().item(), 'rotation', few[-1].abs().max().item(),
          'level in, out', w.std().item(), whole.std().item())


def stage(path, frames, shape):
    """Writes a network of one time layer, PATH.safetensors, and what goes into it and comes out, PATH.time: float32
    [frames,2,positions,channels]."""
    net = Net(blocks=1, nt=1, nf=1, depth=1, kernels=(1,), **TINY, **shape)
    coarse(net)
    export(net, path + '.safetensors', os.path.basename(path), half=True)
    x = torch.randn(1, frames, 2, shape['c'], generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        y = net.stages[0].double().along_time(x.double())
    with open(path + '.time', 'wb') as f:
        f.write(torch.stack([x[0], y[0]], 1).numpy().astype('<f4').tobytes())
    print(os.path.basename(path), 'level in, out', x.std().item(), y.std().item())


def main(out):
    for name, what in NETWORKS.items():
        network(os.path.join(out, name), *what)
    for name, what in STAGES.items():
        stage(os.path.join(out, name), *what)


main(sys.argv[1])
