"""python3 -m training.fixtures OUT_DIR: what tests/unit/net/test_net.c holds the engine against, and test_print.c the
voice print.

For small networks of random weights, NAME.safetensors, the model; NAME.blocks, the maps between the blocks, frame by
frame from zero state; NAME.output, some seconds through the whole network. The input is the formula below, the same to
the bit in C. For time stages in shapes of their own, NAME.safetensors and NAME.time, input and output frame by frame.
For a network that takes voice prints, NAME.safetensors, NAME.voice, a print, and NAME.output. mean.safetensors has
three of the networks. For encoders of voice prints, NAME.safetensors, NAME.steps, the inputs of a window, and
NAME.prints. All but the models is little-endian float32.
"""
import os, sys
import numpy as np, torch

from training.export import LICENCE, export, write
from training.network.net import GRU, LSTM, Net
from training.together import together

FRAMES = 20  # more than the 17 that a dense block of depth 4 looks over
TINY = dict(rate=8000, window=32, hop=16, linear=3, bands=2)  # two positions after the stride-2 convolution
NETWORKS = {  # geometry, mixer, seconds
    'wide': (dict(rate=48000, window=1024, hop=256, linear=171, bands=30), 'mamba', 10),
    'narrow': (dict(rate=16000, window=400, hop=100, linear=201, bands=0), 'mamba', 10),
    'long-hop': (dict(rate=48000, window=1024, hop=512, linear=3, bands=2), 'mamba', 2),
    'low-delay': (dict(rate=8000, window=64, synthesis=32, hop=16, linear=3, bands=2), 'mamba', 2),
    'mamba2': (TINY, 'mamba2', 2),
    'gru': (TINY, 'gru', 2),
    'lstm': (TINY, 'lstm', 2),
    'my-voice': (dict(rate=48000, window=1024, hop=512, linear=3, bands=2, voice=20), 'mamba', 2)}
MEAN, SHARES = ('gru', 'lstm', 'mamba2'), (1, .25, .75)
STAGES = {  # [2 positions, frames, channels]
    **{f'{mixer}-16': (64, dict(c=16, mixer=mixer)) for mixer in ('mamba', 'mamba2', 'gru', 'lstm')},
    **{f'{mixer}-64': (100, dict(c=64, mixer=mixer)) for mixer in ('mamba', 'mamba2', 'gru', 'lstm')},
    'mamba2-192': (64, dict(c=192, mixer='mamba2', state=64, head=64))}
VOICES = {  # `half`: stored in half precision
    'voice': dict(rate=8000, window=40, hop=20, bands=5, stack=2, floor=.01, channels=16, layers=2, size=20, span=2400,
                  step=1200, least=800, silence=1e-4, quiet=.1, half=False),
    'voice-half': dict(rate=16000, window=90, hop=31, bands=16, stack=3, floor=1e-6, channels=32, layers=1, size=16,
                       span=3000, step=2100, least=152, silence=.02, quiet=0, half=True)}
STEPS = 8000                                               # where the window of NAME.steps begins in the signal
PRINTS = [(8000, 800), (8000, 2400), (8000, 2401), (8000, 3001), (0, 16000), (6000, 5000), (10000, 21234)]  # first, n


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
    each of its parts gives, PATH.blocks. If it takes voice prints, PATH.voice is one, for PATH.output. `seconds` of
    signal; all float32."""
    torch.manual_seed(7)
    net = Net(c=16, blocks=2, nt=1, nf=1, mixer=mixer, **geometry)
    shake(net)
    net.eval()
    takes = net.cfg['voice']
    for m in (m for stage in net.stages if takes for m in stage.time):
        m.voice.weight.data.mul_(200)
        m.b2.data.fill_(3)
    export(net, path + '.safetensors', os.path.basename(path), encoder='voice' if takes else None)
    print_ = torch.nn.functional.normalize(torch.arange(1., takes + 1).sin(), dim=0)[None] if takes else None
    n = seconds * net.cfg['rate'] // net.hop * net.hop
    w = signal(n)[None]
    with torch.no_grad():
        whole = net.istft(net(w, print_)[2], n - (net.synthesis - net.hop))[0]     # all samples that are complete
        few = blocks(net, w[:, 3000:3000 + FRAMES * net.hop])
    with open(path + '.output', 'wb') as f:
        f.write(whole.numpy().astype('<f4').tobytes())
    if takes:
        with open(path + '.voice', 'wb') as f:
            f.write(print_.numpy().astype('<f4').tobytes())
        return
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


def encoder(g):
    """-> {name: float64 array}: an encoder's tensors, random, of a size that makes prints differ."""
    r = np.random.default_rng(4)
    c, bins = g['channels'], g['window'] // 2 + 1
    bands = np.zeros((g['bands'], bins))
    for b in range(1, g['bands']):                         # the first stays empty
        low = r.integers(0, bins - 4)
        bands[b, low:low + 4] = r.random(4)
    t = {'window': .5 - .5 * np.cos(2 * np.pi * np.arange(g['window']) / g['window']), 'bands': bands,
         'in.prelu': r.random(c) / 2}
    shapes = {'in': (c, g['stack'] * g['bands']), 'pool': (1, c), 'out': (g['size'], c)}
    shapes |= {f'gru.{i}.{part}': (3 * c, c) for i in range(g['layers']) for part in ('in', 'state')}
    for name, shape in shapes.items():
        t[name + '.weight'] = r.standard_normal(shape) * (6 if name == 'pool' else 2 / shape[1] ** .5)
        t[name + '.bias'] = r.standard_normal(shape[:1]) / 8
    return {name: v.astype('<f2' if g['half'] else '<f4').astype(float) for name, v in t.items()}


def steps(g, t, x):
    """The encoder's inputs [steps,stack*bands] of a window x of length 1 on the average."""
    frames = x.unfold(0, g['window'], g['hop']) * t['window']
    f = (torch.fft.rfft(frames).abs() ** 2 @ t['bands'].T + g['floor']).log()
    f = f[:len(f) // g['stack'] * g['stack']]
    return (f - f.mean(0)).reshape(-1, g['stack'] * g['bands'])


def encode(g, t, x):
    """The print of a window."""
    linear = lambda name, v: torch.nn.functional.linear(v, t[name + '.weight'], t[name + '.bias'])
    h = torch.nn.functional.prelu(linear('in', steps(g, t, x)), t['in.prelu'])
    for i in range(g['layers']):
        layer = torch.nn.GRU(g['channels'], g['channels']).double()
        layer.load_state_dict({f'{kind}_{ours}_l0': t[f'gru.{i}.{part}.{kind}']
                               for part, ours in (('in', 'ih'), ('state', 'hh')) for kind in ('weight', 'bias')})
        h = layer(h)[0]
    return torch.nn.functional.normalize(linear('out', linear('pool', h).softmax(0).T @ h)[0], dim=0)


def voice(path, g):
    """Writes an encoder of voice prints, PATH.safetensors; the inputs of one window, PATH.steps; and the prints of
    parts of the signal, PATH.prints."""
    arrays = encoder(g)
    metadata = {'format': 'primeknet-voice-1', 'name': os.path.basename(path), 'licence': LICENCE,
                'training': 'random weights, for tests'} | {k: f'{v:g}' for k, v in g.items() if k != 'half'}
    write(path + '.safetensors', metadata, arrays, g['half'])
    t = {name: torch.from_numpy(v) for name, v in arrays.items()}
    x, rms = signal(32000).double(), lambda w: w.square().mean().sqrt()
    prints = []
    for first, n in PRINTS:
        sound, span = x[first:first + n], min(g['span'], n)
        starts = [*range(0, n - span, g['step']), n - span]
        windows = [sound[i:i + span] for i in starts]
        loudest = max(map(rms, windows))
        counted = [w / rms(w) for w in windows if rms(w) > g['silence'] and rms(w) > g['quiet'] * loudest]
        with torch.no_grad():
            prints.append(torch.nn.functional.normalize(sum(encode(g, t, w) for w in counted), dim=0))
        print(os.path.basename(path), 'windows', len(windows), 'counted', len(counted))
    window = x[STEPS:STEPS + g['span']]
    for kind, values in (('steps', steps(g, t, window / rms(window))), ('prints', torch.stack(prints))):
        with open(f'{path}.{kind}', 'wb') as f:
            f.write(values.numpy().astype('<f4').tobytes())
    print((torch.stack(prints) @ torch.stack(prints).T).numpy().round(2))


def main(out):
    for name, what in NETWORKS.items():
        network(os.path.join(out, name), *what)
    write(os.path.join(out, 'mean.safetensors'),
          *together([os.path.join(out, name + '.safetensors') for name in MEAN], 'mean', SHARES))
    for name, what in STAGES.items():
        stage(os.path.join(out, name), *what)
    for name, what in VOICES.items():
        voice(os.path.join(out, name), what)


main(sys.argv[1])
