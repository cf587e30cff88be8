"""Causal PrimeKnet-Mamba on a frequency axis of linear bins and, above them, bands.

Every tensor is [batch, time, frequency, channels] unless a comment says otherwise. The names of the parameters are the
names in a checkpoint; the exporter binds to them.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from training.network.depthwise import depthwise
from training.network.scan import scan
from training.network.ssd import ssd

if torch.cuda.is_available():
    from training.network.mamba_triton import mamba_op


def convolve(x, past, w, b):
    """Causal depthwise convolution and SiLU: x [N,T,C] after past [N,taps-1,C], w [C,taps]."""
    x = torch.cat([past, x], 1)
    T = x.shape[1] - past.shape[1]
    return F.silu(sum(x[:, i:i + T] * w[:, i] for i in range(w.shape[1])) + b)


def inverse_softplus(x):
    """y > 0 -> x with softplus(x) = y."""
    return x + torch.log(-torch.expm1(-x))


def step_sizes(n):
    """n step sizes before their softplus, 0.001 to 0.1 after it."""
    return inverse_softplus(torch.exp(torch.rand(n) * math.log(.1 / .001) + math.log(.001)))


# Mixers along time. Each is [N,T,d] -> [N,T,d] from a state of zeros. step is the definition, one frame at a time: it
# takes [N,d] and the state that the step before returned (None at first), and returns the output and the next state.

class Mamba(nn.Module):
    """Gu & Dao, arXiv 2312.00752, without the norm before it."""

    def __init__(self, d, state=16, conv=4, expand=2):
        super().__init__()
        di = d * expand
        self.dt_rank, self.state, self.taps = max(1, math.ceil(d / 16)), state, conv
        self.inp = nn.Linear(d, 2 * di, bias=False)
        self.conv_w = nn.Parameter(torch.randn(di, conv) / math.sqrt(conv))
        self.conv_b = nn.Parameter(torch.zeros(di))
        self.xp = nn.Linear(di, self.dt_rank + 2 * state, bias=False)
        self.dtp = nn.Linear(self.dt_rank, di)
        self.dtp.bias.data = step_sizes(di)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(di, 1))
        self.D = nn.Parameter(torch.ones(di))
        self.out = nn.Linear(di, d, bias=False)

    def select(self, x):
        """x [...,inner] -> step sizes [...,inner], A [inner,state], B and C [...,state]."""
        dt, B, C = self.xp(x).split([self.dt_rank, self.state, self.state], -1)
        return F.softplus(self.dtp(dt)), -torch.exp(self.A_log.float()), B, C

    def forward(self, x):
        x, z = self.inp(x).chunk(2, -1)
        x = convolve(x, x.new_zeros(len(x), self.taps - 1, x.shape[2]), self.conv_w, self.conv_b).to(z.dtype)
        return self.out(scan(x, *self.select(x), self.D.float()) * F.silu(z))

    def between(self, before, x, after):
        """after(self(before(x))) by the GPU's kernels, x [N,T,d]. Matrices in a row are multiplied first, which saves
        the maps between them."""
        with torch.autocast(x.device.type, enabled=False):
            inp, bias = self.inp.weight @ before.weight, self.inp.weight @ before.bias
            select = torch.cat([self.dtp.weight @ self.xp.weight[:self.dt_rank], self.xp.weight[self.dt_rank:]])
            out = after.weight @ self.out.weight
        xz = F.linear(x, inp, bias)
        g = mamba_op(xz, self.conv_w, self.conv_b, select.to(xz.dtype), self.dtp.bias, -torch.exp(self.A_log),
                     self.D)[0]
        return F.linear(g, out, after.bias)

    def step(self, x, carried=None):
        x, z = self.inp(x).chunk(2, -1)
        past, h = carried or (x.new_zeros(len(x), self.taps - 1, x.shape[1]), 0)
        past, x = torch.cat([past[:, 1:], x[:, None]], 1), convolve(x[:, None], past, self.conv_w, self.conv_b)[:, 0]
        dt, A, B, C = self.select(x)
        h = torch.exp(dt[..., None] * A) * h + (dt * x)[..., None] * B[:, None]
        return self.out(((h * C[:, None]).sum(-1) + self.D * x) * F.silu(z)), (past, h)


class Mamba2(nn.Module):
    """Dao & Gu, arXiv 2405.21060: a step size and a decay for each head of head_dim channels, B and C for all heads."""

    def __init__(self, d, state=16, head_dim=16, conv=4, expand=2):
        super().__init__()
        self.inner, self.state, self.head_dim, self.taps = d * expand, state, head_dim, conv
        n, seen = self.inner // head_dim, self.inner + 2 * state
        self.widths = [seen, self.inner, n]                                # x, B, C together; z; dt
        self.inp = nn.Linear(d, sum(self.widths), bias=False)
        self.conv_w = nn.Parameter(torch.randn(seen, conv) / math.sqrt(conv))
        self.conv_b = nn.Parameter(torch.zeros(seen))
        self.dt_bias = nn.Parameter(step_sizes(n))
        self.A_log = nn.Parameter(torch.log(1 + 15 * torch.rand(n)))
        self.D = nn.Parameter(torch.ones(n))
        self.norm = nn.RMSNorm(self.inner, 1e-5)
        self.out = nn.Linear(self.inner, d, bias=False)

    def split(self, x):
        """x [...,seen] -> heads [...,n,head_dim], B and C [...,state]."""
        x, B, C = x.split([self.inner, self.state, self.state], -1)
        return x.unflatten(-1, (-1, self.head_dim)), B, C

    def close(self, y, z):
        """Heads y [...,n,head_dim] and z [...,inner] -> [...,d]."""
        return self.out(self.norm(y.flatten(-2) * F.silu(z)))

    def forward(self, x):
        x, z, dt = self.inp(x).split(self.widths, -1)
        x = convolve(x, x.new_zeros(len(x), self.taps - 1, x.shape[2]), self.conv_w, self.conv_b)
        x, B, C = self.split(x.to(z.dtype))
        y = ssd(x, F.softplus(dt.float() + self.dt_bias), -torch.exp(self.A_log.float()), B, C)
        return self.close(y + self.D[:, None] * x, z)

    def step(self, x, carried=None):
        x, z, dt = self.inp(x).split(self.widths, -1)
        past, h = carried or (x.new_zeros(len(x), self.taps - 1, x.shape[1]), 0)
        past, x = torch.cat([past[:, 1:], x[:, None]], 1), convolve(x[:, None], past, self.conv_w, self.conv_b)[:, 0]
        (x, B, C), dt = self.split(x), F.softplus(dt + self.dt_bias)
        h = torch.exp(dt * -torch.exp(self.A_log))[..., None, None] * h + (dt[..., None] * x)[..., None] * B[:, None,
                                                                                                             None]
        return self.close((h * C[:, None, None]).sum(-1) + self.D[:, None] * x, z), (past, h)


class Recurrent(nn.Module):
    """A recurrent layer of PyTorch, on a GPU cuDNN's, in float32. The compiler leaves it alone, or it would unroll
    every step. Always in training mode, without which cuDNN gives no gradients."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def train(self, mode=True):
        return super().train()

    @torch.compiler.disable
    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            return self.rnn(x.to(self.rnn.weight_ih_l0.dtype))[0]


class GRU(Recurrent):
    """Cho et al., arXiv 1406.1078, in the form of PyTorch and cuDNN: the reset gate after the matrix."""

    def __init__(self, d):
        super().__init__(nn.GRU(d, d, batch_first=True))

    def step(self, x, h=None):
        m = self.rnn
        h = torch.zeros_like(x) if h is None else h
        a, b = F.linear(x, m.weight_ih_l0, m.bias_ih_l0).chunk(3, -1), F.linear(h, m.weight_hh_l0,
                                                                                m.bias_hh_l0).chunk(3, -1)
        reset, keep = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
        h = (1 - keep) * torch.tanh(a[2] + reset * b[2]) + keep * h
        return h, h


class LSTM(Recurrent):
    """Hochreiter & Schmidhuber (1997) with forget gates (Gers et al., 2000)."""

    def __init__(self, d):
        super().__init__(nn.LSTM(d, d, batch_first=True))

    def step(self, x, carried=None):
        m = self.rnn
        h, cell = carried or (torch.zeros_like(x), torch.zeros_like(x))
        gates = F.linear(x, m.weight_ih_l0, m.bias_ih_l0) + F.linear(h, m.weight_hh_l0, m.bias_hh_l0)
        put, keep, new, show = gates.chunk(4, -1)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(put) * torch.tanh(new)
        h = torch.sigmoid(show) * torch.tanh(cell)
        return h, (h, cell)


def make_mixer(word, c, state, head_dim):
    """The mixer of this name for c channels; head_dim is only for mamba2."""
    return {'mamba': lambda: Mamba(c, state), 'mamba2': lambda: Mamba2(c, state, head_dim), 'gru': lambda: GRU(c),
            'lstm': lambda: LSTM(c)}[word]()


def add(x, y, scale):
    """x + scale * y, as precise in memory as the maps are: a float32 scale would make bf16 maps float32."""
    return (x + y * scale).to(x.dtype)


class TimeBlock(nn.Module):
    """Gated channel mixing, then the mixer, along time for each position alone: [N,T,C]. In a network that takes voice
    prints, a scale and a shift of what enters the mixer depend on them (FiLM: Perez et al., AAAI 2018, arXiv
    1709.07871)."""

    def __init__(self, c, mixer='mamba', state=16, head_dim=16, voice=0):
        super().__init__()
        if voice:
            self.voice = nn.Linear(voice, 2 * c, bias=False)
            nn.init.zeros_(self.voice.weight)
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.gate, self.proj = nn.Linear(c, 2 * c), nn.Linear(c, c)
        self.word = mixer
        self.inp = nn.Linear(c, c)
        self.add_module(mixer, make_mixer(mixer, c, state, head_dim))          # a checkpoint's names say which it is
        self.out = nn.Linear(c, c)
        self.b1, self.b2 = nn.Parameter(torch.full((c,), .1)), nn.Parameter(torch.full((c,), .1))

    @property
    def mixer(self):
        """Returns the module that mixes along time."""
        return getattr(self, self.word)

    def entering(self, x, voice):
        """What enters the mixer of x [N,T,C]; voice [B,size], one for each N/B rows, or None."""
        if voice is None:
            return self.n2(x)
        scale, shift = self.voice(voice).repeat_interleave(len(x) // len(voice), 0)[:, None].chunk(2, -1)
        y = F.layer_norm(x, x.shape[-1:], eps=self.n2.eps)
        return (y * (1 + scale) + shift) * self.n2.weight + self.n2.bias

    def forward(self, x, voice=None):
        a, b = self.gate(self.n1(x)).chunk(2, -1)
        x = add(x, self.proj(a * b), self.b1)
        y = self.entering(x, voice)
        if x.is_cuda and self.word == 'mamba':
            y = self.mixer.between(self.inp, y, self.out)
        else:
            y = self.out(self.mixer(self.inp(y)))
        return add(x, y, self.b2)


class FreqBlock(nn.Module):
    """Channel attention and group prime-kernel network within one frame: [B,T,F,C].

    The long kernels run as matrix products with banded (Toeplitz) matrices, one a channel, channels first: that is
    several times the arithmetic of the sums they stand for, and on a GPU's matrix units several times as fast.
    """

    def __init__(self, c, positions, kernels):
        super().__init__()
        self.kernels, self.longest = kernels, max(kernels)
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.gate, self.proj, self.attn = nn.Linear(c, 2 * c), nn.Linear(c, c), nn.Linear(c, c)
        self.dw = nn.Parameter(torch.randn(3, 2 * c) / math.sqrt(3))
        self.up, self.down = nn.Linear(c, c * len(kernels)), nn.Linear(c * len(kernels), c)
        self.w1 = nn.ParameterList([nn.Parameter(torch.randn(k, c) / math.sqrt(k)) for k in kernels])
        self.w2 = nn.ParameterList([nn.Parameter(torch.randn(k, c) / math.sqrt(k)) for k in kernels])
        self.pw = nn.ModuleList([nn.Linear(c, c) for _ in kernels])
        self.b1, self.b2 = nn.Parameter(torch.full((c,), .1)), nn.Parameter(torch.full((c,), .1))
        self.pad = -positions % 8                                          # to what matrix units like
        i = torch.arange(positions + self.pad)
        tap = i[:, None] - i + self.longest // 2                           # [from, to]: which tap joins two positions
        inside = (i[:, None] < positions) & (i < positions)
        band = (tap == torch.arange(self.longest)[:, None, None]) & inside
        self.register_buffer('band', band.float().flatten(1), persistent=False)

    def banded(self, ws):
        """Kernels [k,C] -> [all channels, F, F], F padded."""
        w = torch.cat([F.pad(w.t(), 2 * [(self.longest - w.shape[0]) // 2]) for w in ws])
        n = math.isqrt(self.band.shape[1])
        return (w @ self.band).view(-1, n, n)

    def mix(self):
        """The groups' matrices as one, zeros between groups: the gradient is one large product instead of several."""
        C, n = len(self.pw[0].weight), len(self.pw)
        return torch.cat([F.pad(p.weight, (i * C, (n - 1 - i) * C)) for i, p in enumerate(self.pw)])

    def forward(self, x):
        B, T, P, C = x.shape
        a, b = depthwise([self.gate(self.n1(x))], self.dw[None], 1, 3).chunk(2, -1)
        y = a * b
        x = add(x, self.proj(y * self.attn(y.mean(2, keepdim=True))), self.b1)
        n = F.pad(self.n2(x), (0, 0, 0, self.pad)).view(-1, C)
        u = (self.up.weight @ n.t() + self.up.bias[:, None]).view(-1, B * T, P + self.pad)
        # torch.compile cannot unpack a ParameterList by *.
        kernels = self.banded([w for ws in (self.w1, self.w2) for w in ws]).chunk(2)
        a, b = (torch.bmm(u, k).view(len(u), -1) for k in kernels)
        g = (self.mix() @ a + torch.cat([p.bias for p in self.pw])[:, None]) * b
        y = g.t() @ self.down.weight.t() + self.down.bias
        return add(x, y.view(B, T, -1, C)[:, :, :P], self.b2)


class TwoStage(nn.Module):
    """Time layers, then frequency layers, each group with a skip around it: [B,T,F,C]."""

    def __init__(self, c, positions, nt, nf, kernels, **mixing):
        super().__init__()
        self.time = nn.ModuleList([TimeBlock(c, **mixing) for _ in range(nt)])
        self.freq = nn.ModuleList([FreqBlock(c, positions, kernels) for _ in range(nf)])
        self.bt, self.bf = nn.Parameter(torch.zeros(c)), nn.Parameter(torch.zeros(c))

    def along_time(self, x, voice=None):
        """[B,T,F,C], voice [B,size] or None -> [B,T,F,C]."""
        B, T, Fp, C = x.shape
        h = skip = x.transpose(1, 2).reshape(B * Fp, T, C)
        for m in self.time:
            h = m(h, voice)
        return add(h, skip, self.bt).view(B, Fp, T, C).transpose(1, 2).contiguous()

    def along_frequency(self, x):
        """[B,T,F,C] -> [B,T,F,C]."""
        h = x
        for m in self.freq:
            h = m(h)
        return add(h, x, self.bf)

    def forward(self, x, voice=None):
        return self.along_frequency(self.along_time(x, voice))


class Norm(nn.BatchNorm1d):
    """Batch norm over all dimensions but the last."""

    def forward(self, x):
        return super().forward(x.reshape(-1, x.shape[-1])).view(x.shape)


class PReLU(nn.Module):
    """One slope for each channel, the last dimension."""

    def __init__(self, c):
        super().__init__()
        self.w = nn.Parameter(torch.full((c,), .25))

    def forward(self, x):
        return torch.where(x > 0, x, x * self.w.to(x.dtype))       # a float32 slope would make bf16 maps float32


class DenseBlock(nn.Module):
    """DS_DDB: layer i sees all earlier maps, depthwise 3x3 with time spacing 2^i, then a pointwise layer."""

    def __init__(self, c, depth=4):
        super().__init__()
        self.depth = depth
        self.w = nn.ParameterList([nn.Parameter(torch.randn(9, c) / 3) for i in range(depth) for _ in range(i + 1)])
        self.pw = nn.ModuleList([nn.Linear(c * (i + 1), c, bias=False) for i in range(depth)])
        self.norm = nn.ModuleList([Norm(c) for _ in range(depth)])
        self.act = nn.ModuleList([PReLU(c) for _ in range(depth)])

    def forward(self, x):
        maps, k = [x], 0
        for i in range(self.depth):
            d = depthwise(maps, torch.stack([self.w[k + j] for j in range(len(maps))]), 3, 3, 2 ** i)
            k += len(maps)
            x = self.act[i](self.norm[i](self.pw[i](d)))
            maps = [x] + maps
        return x


class Down(nn.Module):
    """Convolution over frequency, kernel 3, stride 2."""

    def __init__(self, c):
        super().__init__()
        self.lin, self.norm, self.act = nn.Linear(3 * c, c), Norm(c), PReLU(c)

    def forward(self, x):
        n = (x.shape[2] - 3) // 2 + 1
        return self.act(self.norm(self.lin(torch.cat([x[:, :, i:i + 2 * n - 1:2] for i in range(3)], -1))))


class Up(nn.Module):
    """Transposed convolution over frequency, kernel 3, stride 2, back to `positions`; then the head."""

    def __init__(self, c, out, positions):
        super().__init__()
        self.positions = positions
        self.even, self.odd = nn.Linear(2 * c, c), nn.Linear(c, c)
        self.norm, self.act, self.head = Norm(c), PReLU(c), nn.Linear(c, out)

    def forward(self, x):
        z = torch.zeros_like(x[:, :, :1])
        e = self.even(torch.cat([torch.cat([z, x], 2), torch.cat([x, z], 2)], -1))
        y = torch.cat([torch.stack([e[:, :, :-1], self.odd(x)], 3).flatten(2, 3), e[:, :, -1:]], 2)
        assert y.shape[2] == self.positions, 'the number of positions must be odd'
        return self.head(self.act(self.norm(y)))


def windows(length, synthesis):
    """Analysis window and, over its last `synthesis` samples, the synthesis window: their product there is a Hann
    window.

    Both are square-root Hann where they are as long as each other; else analysis rises slowly and falls as fast as
    synthesis, so that frequencies are told apart by the long one while a sample is complete when the short one has
    passed.
    """
    product = torch.hann_window(synthesis)
    rise = length - synthesis // 2
    analysis = torch.cat([torch.hann_window(2 * rise)[:rise], product[synthesis // 2:]]).sqrt()
    return analysis, product / analysis[-synthesis:].clamp_min(1e-6)


def band_edges(linear, bands, bins, constant_q=False):
    """[bands+1]: the first bin of each band above `linear` bins, then the number of bins."""
    i = torch.arange(bands + 1) / bands
    edges = linear * (bins / linear) ** i if constant_q else linear + (bins - linear) * i
    return edges.round().long()


GEOMETRY = 'win', 'band_mean', 'band_spread'            # what of a network's state its settings determine


class Net(nn.Module):
    """c channels; `blocks` of nt time and nf frequency layers; `state` numbers of state for each channel of a Mamba,
    and heads of `head` channels in Mamba-2; dense blocks of `depth` layers. At `rate` Hz: frames of `window` samples,
    every `hop`; `linear` bins and, above them, `bands`, equally wide or of constant Q; magnitudes to the power
    `compress`. Voice prints of `voice` numbers, if any, say whose voice to keep."""

    def __init__(self, c=32, blocks=4, nt=2, nf=2, state=16, depth=4, rate=48000, window=1024, hop=256, linear=171,
                 bands=30, compress=.3, synthesis=None, mixer='mamba', head=16, kernels=(3, 11, 23, 31),
                 constant_q=False, voice=0):
        super().__init__()
        synthesis = synthesis or window
        self.cfg = {k: v for k, v in locals().items() if k not in ('self', '__class__')}
        self.window, self.hop, self.linear, self.bands, self.compress = window, hop, linear, bands, compress
        self.least = 1e-3                               # of the masks
        self.synthesis = synthesis
        bins, P = window // 2 + 1, linear + bands
        self.embed = nn.Sequential(nn.Linear(3, c), Norm(c), PReLU(c))
        self.enc, self.down = DenseBlock(c, depth), Down(c)
        self.stages = nn.ModuleList([TwoStage(c, (P - 3) // 2 + 1, nt, nf, kernels, mixer=mixer, state=state,
                                              head_dim=head, voice=voice) for _ in range(blocks)])
        self.mask_dec, self.phase_dec = DenseBlock(c, depth), DenseBlock(c, depth)
        self.mask_up, self.phase_up = Up(c, 1, P), Up(c, 2, P)
        self.slope = nn.Parameter(torch.ones(P))
        analysis, back = windows(window, self.synthesis)
        self.register_buffer('win', analysis)
        self.register_buffer('back', back, persistent=False)
        self.edges = band_edges(linear, bands, bins, constant_q).tolist() if bands else []
        if bands:
            edges = torch.tensor(self.edges)
            member = torch.zeros(bins - linear, bands)
            for b in range(bands):
                member[edges[b] - linear:edges[b + 1] - linear, b] = 1
            centre = (edges[:-1] + edges[1:] - 1).float() / 2
            pos = torch.arange(linear, bins).float()[:, None]
            tri = torch.zeros(bins - linear, bands)
            i = torch.searchsorted(centre, pos[:, 0]).clamp(1, bands - 1)
            fr = ((pos[:, 0] - centre[i - 1]) / (centre[i] - centre[i - 1])).clamp(0, 1)
            rows = torch.arange(bins - linear)
            tri[rows, i - 1], tri[rows, i] = 1 - fr, fr
            self.register_buffer('band_mean', member / member.sum(0))      # power of a band
            self.register_buffer('band_spread', tri)                       # mask of a bin from its bands

    def stft(self, w):
        """[B,n] -> [B,T,bins]; frame t ends at sample (t+1)*hop."""
        return torch.stft(F.pad(w, (self.window - self.hop, 0)), self.window, self.hop, window=self.win, center=False,
                          return_complex=True).transpose(1, 2) / 16

    def istft(self, X, n):
        """[B,T,bins] -> [B,n], undelayed: sample i is complete synthesis-hop samples later."""
        r = self.synthesis // self.hop
        fr = (torch.fft.irfft(X * 16, n=self.window)[..., -self.synthesis:] * self.back).unflatten(2, (r, self.hop))
        y = sum(F.pad(fr[:, :, k], (0, 0, k, r - 1 - k)) for k in range(r)).flatten(1)
        return y[:, self.synthesis - self.hop:self.synthesis - self.hop + n] / (r / 2)

    def features(self, X):
        """[B,T,bins] -> compressed magnitude at each position [B,T,P], unit phase of the linear bins [B,T,linear]."""
        L = X[..., :self.linear]
        mag = L.abs().clamp_min(1e-6)
        m = mag ** self.compress
        if self.bands:
            power = X[..., self.linear:].abs().square() @ self.band_mean
            m = torch.cat([m, power.clamp_min(1e-12) ** (self.compress / 2)], -1)
        return m, L / mag

    def positions_hz(self):
        """[P], in Hz: the bins, and the middles of the bands."""
        edges = torch.tensor(self.edges, dtype=torch.float)
        bins = torch.cat([torch.arange(self.linear), (edges[:-1] + edges[1:] - 1) / 2])
        return bins * self.cfg['rate'] / self.window

    def core(self, x, voice=None):
        """[B,T,P,3], voice prints [B,size] or None -> mask [B,T,P], rotation [B,T,P,2]."""
        h = self.down(self.enc(self.embed(x)))
        for s in self.stages:
            h = s(h, voice)
        return 2 * torch.sigmoid(self.slope * self.mask_up(self.mask_dec(h))[..., 0]), self.phase_up(self.phase_dec(h))

    def forward(self, w, voice=None):
        """w [B,n], voice prints [B,size] or None -> compressed magnitude [B,T,P], phase [B,T,linear], spectrum [B,T,bins]."""
        X = self.stft(w)
        m, ph = self.features(X)
        z = F.pad(ph, (0, self.bands))
        given = () if voice is None else (voice,)
        mask, rot = self.core(torch.stack([m, m * z.real, m * z.imag], -1), *given)
        mask, rot = mask.float(), rot.float()
        rr, ri = 1 + rot[..., :self.linear, 0], rot[..., :self.linear, 1]
        n = torch.rsqrt(rr * rr + ri * ri + 1e-6)
        ph = ph * torch.complex(rr * n, ri * n)
        gain = mask.clamp_min(self.least) ** (1 / self.compress)
        Y = X[..., :self.linear].abs() * gain[..., :self.linear] * ph
        if self.bands:
            Y = torch.cat([Y, X[..., self.linear:] * (gain[..., self.linear:] @ self.band_spread.t())], -1)
        return mask * m, ph, Y
