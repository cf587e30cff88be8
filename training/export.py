"""python3 -m training.export CHECKPOINT.ema OUT.safetensors --name NAME [--licence TEXT] [--training TEXT]
                      [--encoder NAME] [--steeper FACTOR LOW HIGH] [--floor DB]

Writes a trained checkpoint as a model file (docs/model-format.md). Folds, in double precision, what only training
keeps apart: batch norms and layer norms' gains into the linear layers beside them, the branches' gains into the layers
that end them, two linear layers in a row into one, -exp of the scan's logarithms.

--steeper multiplies the mask's slope between two frequencies in Hz: what the network doubts there becomes quieter.
--floor is the least gain, so that pauses keep a little of the room's sound.
"""
import argparse, json, math, struct
import numpy as np, torch

from training.network.net import GRU, LSTM, Mamba, Mamba2, Net

FORMAT = 'primeknet-1'
LICENCE = 'GPL-3.0-or-later'


def write(path, metadata, tensors, half=False):
    """safetensors: length, JSON header, float32 data (float16 if `half`, but for the windows); the same bytes for the
    same input."""
    tensors = {name: t.astype('<f2' if half and not name.startswith('window.') else '<f4')
               for name, t in tensors.items()}
    header, offset = {'__metadata__': metadata}, 0
    for name, t in tensors.items():
        header[name] = {'dtype': f'F{8 * t.itemsize}', 'shape': list(t.shape),
                        'data_offsets': [offset, offset + t.nbytes]}
        offset += t.nbytes
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for t in tensors.values():
            f.write(t.tobytes())


class Folder:
    """Collects the tensors of a network in evaluation mode, everything in double precision."""

    def __init__(self, net):
        self.net, self.cfg, self.out = net, net.cfg, {}
        self.window, self.hop = net.window, net.hop
        self.collect()
        for name, t in self.out.items():
            if not np.isfinite(t).all():
                raise SystemExit(f'{name} holds a value that is not finite')

    def put(self, name, tensor):
        """Takes one tensor, of any shape."""
        self.out[name] = tensor.detach().double().cpu().numpy()

    def linear(self, name, weight, bias):
        """weight [out,in], bias [out]."""
        self.put(name + '.weight', weight)
        self.put(name + '.bias', bias)

    @staticmethod
    def pair(layer):
        """weight, bias of a linear layer."""
        weight = layer.weight.detach().double()
        return weight, weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().double()

    @staticmethod
    def before(weight, bias, norm):
        """A layer norm's gain and offset folded into the linear layer that follows."""
        return weight * norm.weight.detach().double(), bias + weight @ norm.bias.detach().double()

    @staticmethod
    def after(weight, bias, norm):
        """A batch norm folded into the linear layer before it."""
        gain = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
        return weight * gain[:, None], (bias - norm.running_mean.double()) * gain + norm.bias.detach().double()

    def dense(self, name, block, c):
        """A DenseBlock of c channels: each layer's taps [3,3,(i+1)*c], matrix and PReLU."""
        k = 0
        for i in range(block.depth):
            self.put(f'{name}.{i}.taps', torch.cat(list(block.w[k:k + i + 1]), -1).view(3, 3, (i + 1) * c))
            k += i + 1
            self.linear(f'{name}.{i}', *self.after(*self.pair(block.pw[i]), block.norm[i]))
            self.put(f'{name}.{i}.prelu', block.act[i].w)

    def up(self, name, up):
        """An Up: the layers of even and odd positions, the PReLU, the head."""
        self.linear(f'{name}.even', *self.after(*self.pair(up.even), up.norm))
        self.linear(f'{name}.odd', *self.after(*self.pair(up.odd), up.norm))
        self.put(f'{name}.prelu', up.act.w)
        self.linear(f'{name}.head', *self.pair(up.head))

    def time_layer(self, name, m):
        """A TimeBlock, with its branches' gains folded in."""
        self.linear(f'{name}.gate', *self.before(*self.pair(m.gate), m.n1))
        w, b = self.pair(m.proj)
        self.linear(f'{name}.proj', w * m.b1.detach().double()[:, None], b * m.b1.detach().double())
        w, b = self.pair(m.out)
        gain = m.b2.detach().double()
        mix = {Mamba: self.mamba, Mamba2: self.mamba2, GRU: self.gru, LSTM: self.lstm}[type(m.mixer)]
        mix(name, m.mixer, self.before(*self.pair(m.inp), m.n2), (w * gain[:, None], b * gain))
        if self.cfg.get('voice'):
            self.put(f'{name}.voice.weight', m.voice.weight)

    # What mixes in time, with the linear layers before and after it.

    def mamba(self, name, m, before, after):
        """A Mamba. before, after: (weight, bias) of the linear layers on either side; so for each mixer."""
        inner = m.inp.weight.detach().double()
        self.linear(f'{name}.in', inner @ before[0], inner @ before[1])
        self.put(f'{name}.conv.taps', m.conv_w.t())
        self.put(f'{name}.conv.bias', m.conv_b)
        step, select = m.xp.weight.split([m.dt_rank, 2 * m.state])
        self.put(f'{name}.select.weight', torch.cat([select, step]))
        self.linear(f'{name}.step', *self.pair(m.dtp))
        self.put(f'{name}.decay', -torch.exp(m.A_log.double()))
        self.put(f'{name}.pass', m.D)
        self.linear(f'{name}.out', after[0] @ m.out.weight.detach().double(), after[1])

    def mamba2(self, name, m, before, after):
        """A Mamba2; its norm's gain goes into the layer after it."""
        inner = m.inp.weight.detach().double()
        bias = inner @ before[1]
        bias[-len(m.dt_bias):] += m.dt_bias.detach().double()
        self.linear(f'{name}.in', inner @ before[0], bias)
        self.put(f'{name}.conv.taps', m.conv_w.t())
        self.put(f'{name}.conv.bias', m.conv_b)
        self.put(f'{name}.decay', -torch.exp(m.A_log.double()))
        self.put(f'{name}.pass', m.D)
        self.linear(f'{name}.out', after[0] @ (m.out.weight * m.norm.weight).detach().double(), after[1])

    def gru(self, name, m, before, after):
        """A GRU: its input matrix goes into the layer before it."""
        w, b = m.rnn.weight_ih_l0.detach().double(), m.rnn.bias_ih_l0.detach().double()
        self.linear(f'{name}.in', w @ before[0], w @ before[1] + b)
        self.linear(f'{name}.state', m.rnn.weight_hh_l0, m.rnn.bias_hh_l0)
        self.linear(f'{name}.out', *after)

    def lstm(self, name, m, before, after):
        """An LSTM: its input matrix goes into the layer before it, its two biases into one."""
        w, b = m.rnn.weight_ih_l0.detach().double(), (m.rnn.bias_ih_l0.double() + m.rnn.bias_hh_l0.double()).detach()
        self.linear(f'{name}.in', w @ before[0], w @ before[1] + b)
        self.put(f'{name}.state.weight', m.rnn.weight_hh_l0)
        self.linear(f'{name}.out', *after)

    def freq_layer(self, name, m):
        """A FreqBlock, with its branches' gains folded in."""
        self.linear(f'{name}.gate', *self.before(*self.pair(m.gate), m.n1))
        self.put(f'{name}.gate.taps', m.dw)
        self.linear(f'{name}.attention', *self.pair(m.attn))
        w, b = self.pair(m.proj)
        self.linear(f'{name}.proj', w * m.b1.detach().double()[:, None], b * m.b1.detach().double())
        self.linear(f'{name}.up', *self.before(*self.pair(m.up), m.n2))
        for k in range(len(m.kernels)):
            self.put(f'{name}.prime.{k}.mixed.taps', m.w1[k])
            self.put(f'{name}.prime.{k}.taps', m.w2[k])
            self.linear(f'{name}.prime.{k}', *self.pair(m.pw[k]))
        w, b = self.pair(m.down)
        self.linear(f'{name}.down', w * m.b2.detach().double()[:, None], b * m.b2.detach().double())

    def collect(self):
        """Takes all tensors, in the order of the file."""
        net, c = self.net, self.cfg['c']
        analysis, synthesis = net.win.double(), net.back.double()
        self.put('window.analysis', analysis)
        overlapped = (analysis[-net.synthesis:] * synthesis).view(-1, self.hop).sum(0)
        assert torch.allclose(overlapped, overlapped[:1].expand(self.hop),
                              rtol=1e-5), 'the windows do not undo each other'
        self.put('window.synthesis', synthesis / overlapped.repeat(net.synthesis // self.hop))
        self.linear('embed', *self.after(*self.pair(net.embed[0]), net.embed[1]))
        self.put('embed.prelu', net.embed[2].w)
        self.dense('encoder', net.enc, c)
        self.linear('down', *self.after(*self.pair(net.down.lin), net.down.norm))
        self.put('down.prelu', net.down.act.w)
        for b, stage in enumerate(net.stages):
            for i, m in enumerate(stage.time):
                self.time_layer(f'block.{b}.time.{i}', m)
            self.put(f'block.{b}.time.skip', stage.bt)
            for i, m in enumerate(stage.freq):
                self.freq_layer(f'block.{b}.freq.{i}', m)
            self.put(f'block.{b}.freq.skip', stage.bf)
        self.dense('mask', net.mask_dec, c)
        self.up('mask.up', net.mask_up)
        self.put('mask.slope', net.slope)
        self.dense('phase', net.phase_dec, c)
        self.up('phase.up', net.phase_up)


def metadata(net, name, licence, training, encoder=None, floor=None):
    """-> {key: text}: the header's __metadata__, docs/model-format.md. encoder: whose voice prints it takes. floor: the
    least gain in dB (None: that in training)."""
    cfg, layer = net.cfg, net.stages[0].time[0]
    least = net.least if floor is None else round(10 ** (floor / 20 * net.compress), 4)
    values = {
        'rate': cfg['rate'], 'window': net.window, 'synthesis': net.synthesis, 'hop': net.hop,
        'linear_bins': net.linear, 'band_edges': net.edges, 'scale': 16, 'compression': net.compress,
        'mask_ceiling': 2, 'mask_minimum': least,
        'rotation_epsilon': 1e-6, 'magnitude_minimum': 1e-6, 'power_minimum': 1e-12, 'norm_epsilon': layer.n1.eps,
        'channels': cfg['c'], 'depth': cfg['depth'], 'blocks': cfg['blocks'], 'time_layers': cfg['nt'],
        'frequency_layers': cfg['nf'], 'kernels': list(net.stages[0].freq[0].kernels)}
    if layer.word in ('mamba', 'mamba2'):
        m = layer.mixer
        values |= {'d_state': m.state, 'd_conv': m.taps, 'expand': m.out.in_features // cfg['c']}
        values |= {'step_rank': m.dt_rank} if layer.word == 'mamba' else {'head': m.head_dim}
    if cfg.get('voice'):
        values |= {'voice_size': cfg['voice']}
    text = {'voice_encoder': encoder} if encoder else {}
    text |= {'format': FORMAT, 'name': name, 'licence': licence, 'training': training, 'mixer': layer.word,
            'band_gain_maximum': 'none'}
    return text | {k: json.dumps(v) for k, v in values.items()}


def export(net, path, name, licence=LICENCE, training='random weights, for tests', half=False, encoder=None,
           floor=None):
    """Writes the network as the model file `path`. encoder, floor: as for metadata."""
    if bool(encoder) != bool(net.cfg.get('voice')):
        raise SystemExit('a network that takes voice prints needs the name of their encoder, and no other has one')
    write(path, metadata(net.eval(), name, licence, training, encoder, floor), Folder(net).out, half)


def load(checkpoint, device='cpu'):
    """-> the network in evaluation mode, and the checkpoint {ema, cfg, step}."""
    ck = torch.load(checkpoint, map_location=device, weights_only=True)
    net = Net(**ck['cfg']).to(device)
    net.load_state_dict(ck['ema'])
    return net.eval(), ck


def steepen(net, factor, low, high):
    """Multiplies the mask's slope from `low` to `high` Hz."""
    hz = net.positions_hz()
    net.slope.data[(hz >= low) & (hz <= high)] *= factor


if __name__ == '__main__':
    p = argparse.ArgumentParser(description='Write a checkpoint as a model file.')
    p.add_argument('checkpoint')
    p.add_argument('out')
    p.add_argument('--name', required=True)
    p.add_argument('--licence', default=LICENCE)
    p.add_argument('--training', default='')
    p.add_argument('--encoder', help='whose voice prints it takes, if any')
    p.add_argument('--floor', type=float, metavar='DB')
    p.add_argument('--steeper', type=float, nargs=3, metavar=('FACTOR', 'LOW', 'HIGH'))
    a = p.parse_args()
    net, ck = load(a.checkpoint)
    facts = f"{a.training + '; ' if a.training else ''}{ck['step']} optimiser steps; averaged weights"
    if a.steeper:
        steepen(net, *a.steeper)
        facts += '; mask {:g} times as steep from {:g} to {:g} Hz'.format(*a.steeper)
    export(net, a.out, a.name, a.licence, facts, encoder=a.encoder, floor=a.floor)
