"""python3 fixtures.py OUT_DIR: what tests/test_net.c holds the engine against.

For two small networks of random weights (48 kHz with bands, 16 kHz without), NAME.safetensors, the model; NAME.blocks, the maps
between the blocks, frame by frame from zero state; NAME.output, ten seconds through the whole network. Both of the latter are
little-endian float32. The input is the formula below, the same to the bit in C.
"""
import os, sys
import numpy as np, torch

from export import export
from network import Net

FRAMES = 20  # more than the 17 that a dense block of depth 4 looks over
SECONDS = 10
GEOMETRIES = {
    'wide': dict(rate=48000, window=1024, hop=256, linear=171, bands=30),
    'narrow': dict(rate=16000, window=400, hop=100, linear=201, bands=0)}


def signal(n):
    """Noise from a 32-bit congruential generator, louder and softer by turns: full of everything, silent now and then."""
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
        _, T, Fp, C = maps[-1].shape
        x = h = maps[-1].transpose(1, 2).reshape(Fp, T, C)
        for layer in stage.time:
            h = layer(h)
        maps.append((h + x * stage.bt).view(1, Fp, T, C).transpose(1, 2).contiguous())
        x = h = maps[-1]
        for layer in stage.freq:
            h = layer(h)
        maps.append(h + x * stage.bf)
    mask, rotation = net.core(maps[0])
    return maps + [mask, rotation]


def main(out):
    for name, geometry in GEOMETRIES.items():
        torch.manual_seed(7)
        net = Net(c=16, blocks=2, nt=1, nf=1, **geometry)
        shake(net)
        net.eval()
        export(net, os.path.join(out, name + '.safetensors'), name)
        n = SECONDS * net.cfg['rate'] // net.hop * net.hop
        w = signal(n)[None]
        with torch.no_grad():
            whole = net.istft(net(w)[2], n - (net.window - net.hop))[0]    # all samples that are complete
            few = blocks(net, w[:, 3000:3000 + FRAMES * net.hop])
        with open(os.path.join(out, name + '.output'), 'wb') as f:
            f.write(whole.numpy().astype('<f4').tobytes())
        with open(os.path.join(out, name + '.blocks'), 'wb') as f:
            for t in range(FRAMES):
                for block in few:
                    f.write(block[0, t].contiguous().numpy().astype('<f4').tobytes())
        gain = few[-2]
        print(name, 'mask', gain.min().item(), gain.max().item(), 'rotation', few[-1].abs().max().item(),
              'level in, out', w.std().item(), whole.std().item())


main(sys.argv[1])
