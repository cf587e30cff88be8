"""A model file as a network that can be trained on: export.py's way back, for the mixer `mamba`.

What export.py folded stays folded: layer norms' gains are 1, and of two linear layers in a row one is the identity.
Batch norms need the statistics of clips, which calibrate() takes.
"""
import json
import math

import torch
from safetensors import SafetensorError, safe_open

from training.network.net import GEOMETRY, Net, Norm, band_edges

USUAL = 1 / math.sqrt(3)                                # the norm of a new linear layer's rows


class Unfolder:
    """net: the first network of the model file `path`, in evaluation mode what the engines compute."""

    def __init__(self, path):
        with safe_open(path, 'pt') as f:
            self.t = {name: f.get_tensor(name).double() for name in f.keys() if not name[0].isdigit()}
            text = f.metadata()
        if text['mixer'] != 'mamba':
            raise SystemExit(f"{path}: its mixer is {text['mixer']}; only mamba can be trained on")
        v = {k: json.loads(text[k]) for k in (
            'channels', 'blocks', 'time_layers', 'frequency_layers', 'd_state', 'depth', 'rate', 'window', 'hop',
            'linear_bins', 'band_edges', 'compression', 'synthesis', 'kernels')}
        axis = v['linear_bins'], max(0, len(v['band_edges']) - 1)
        constant_q = axis[1] > 0 and v['band_edges'] == band_edges(*axis, v['window'] // 2 + 1, True).tolist()
        net = self.net = Net(v['channels'], v['blocks'], v['time_layers'], v['frequency_layers'], v['d_state'],
                             v['depth'], v['rate'], v['window'], v['hop'], *axis, v['compression'], v['synthesis'],
                             kernels=tuple(v['kernels']), constant_q=constant_q).eval()
        self.norms()
        self.linear('embed', net.embed[0])
        self.put(net.embed[2].w, 'embed.prelu')
        self.dense('encoder', net.enc)
        self.linear('down', net.down.lin)
        self.put(net.down.act.w, 'down.prelu')
        for b, stage in enumerate(net.stages):
            for i, m in enumerate(stage.time):
                self.time_layer(f'block.{b}.time.{i}', m)
            self.put(stage.bt, f'block.{b}.time.skip')
            for i, m in enumerate(stage.freq):
                self.freq_layer(f'block.{b}.freq.{i}', m)
            self.put(stage.bf, f'block.{b}.freq.skip')
        self.put(net.slope, 'mask.slope')
        for branch in 'mask', 'phase':
            self.dense(branch, getattr(net, branch + '_dec'))
            up = getattr(net, branch + '_up')
            for part in 'even', 'odd', 'head':
                self.linear(f'{branch}.up.{part}', getattr(up, part))
            self.put(up.act.w, f'{branch}.up.prelu')
        if self.t.keys() - {'window.analysis', 'window.synthesis'}:
            raise SystemExit(f'{path}: {sorted(self.t)[0]} has no place in the network')

    def norms(self):
        """Batch norms that do nothing, until calibrate()."""
        for m in self.net.modules():
            if isinstance(m, Norm):
                m.running_var.fill_(1 - m.eps)

    def take(self, name):
        """Returns the tensor of this name, and marks it as used."""
        return self.t.pop(name)

    def put(self, parameter, name):
        """Fills a parameter with the tensor of this name."""
        parameter.data.copy_(self.take(name).view_as(parameter))

    def linear(self, name, layer):
        """Fills a linear layer."""
        self.put(layer.weight, name + '.weight')
        self.put(layer.bias, name + '.bias')

    def branch(self, name, weight, bias, gain):
        """Fills the layer that ends a branch, its rows scaled to the norm USUAL; the scale goes into the branch's
        gain."""
        self.put(weight, name + '.weight')
        self.put(bias, name + '.bias')
        size = (weight.data.norm(dim=1) / USUAL).clamp_min(1e-6)
        weight.data /= size[:, None]
        bias.data /= size
        gain.data.copy_(size)

    def dense(self, name, block):
        """Fills a DenseBlock."""
        k = 0
        for i in range(block.depth):
            for w in self.take(f'{name}.{i}.taps').flatten(0, 1).chunk(i + 1, -1):
                block.w[k].data.copy_(w)
                k += 1
            self.put(block.pw[i].weight, f'{name}.{i}.weight')
            self.put(block.norm[i].bias, f'{name}.{i}.bias')
            self.put(block.act[i].w, f'{name}.{i}.prelu')

    def time_layer(self, name, block):
        """Fills a TimeBlock."""
        m = block.mixer
        self.linear(f'{name}.gate', block.gate)
        self.branch(f'{name}.proj', block.proj.weight, block.proj.bias, block.b1)
        torch.nn.init.eye_(block.inp.weight)
        inner, bias = self.t[f'{name}.in.weight'], self.take(f'{name}.in.bias')
        block.inp.bias.data.copy_(torch.linalg.lstsq(inner, bias[:, None]).solution[:, 0])
        self.put(m.inp.weight, f'{name}.in.weight')
        m.conv_w.data.copy_(self.take(f'{name}.conv.taps').t())
        self.put(m.conv_b, f'{name}.conv.bias')
        m.xp.weight.data.copy_(self.take(f'{name}.select.weight').roll(m.dt_rank, 0))
        self.linear(f'{name}.step', m.dtp)
        m.A_log.data.copy_((-self.take(f'{name}.decay')).log())
        self.put(m.D, f'{name}.pass')
        torch.nn.init.eye_(block.out.weight)
        self.branch(f'{name}.out', m.out.weight, block.out.bias, block.b2)

    def freq_layer(self, name, block):
        """Fills a FreqBlock."""
        self.linear(f'{name}.gate', block.gate)
        self.put(block.dw, f'{name}.gate.taps')
        self.linear(f'{name}.attention', block.attn)
        self.branch(f'{name}.proj', block.proj.weight, block.proj.bias, block.b1)
        self.linear(f'{name}.up', block.up)
        for k in range(len(block.kernels)):
            self.put(block.w1[k], f'{name}.prime.{k}.mixed.taps')
            self.put(block.w2[k], f'{name}.prime.{k}.taps')
            self.linear(f'{name}.prime.{k}', block.pw[k])
        self.branch(f'{name}.down', block.down.weight, block.down.bias, block.b2)


@torch.no_grad()
def calibrate(net, noisy):
    """Gives every batch norm the statistics of these clips [B,n] and the gain that undoes them: the network computes
    what it did, and in training, with the statistics of each batch, nearly so."""
    taken = {}

    def take(m, args):
        x = args[0].double().flatten(0, -2)
        taken[m] = x.mean(0), x.var(0)

    hooks = [m.register_forward_pre_hook(take) for m in net.modules() if isinstance(m, Norm)]
    net.eval()
    net(noisy)
    for h in hooks:
        h.remove()
    for m, (mean, var) in taken.items():
        gain = m.weight / (m.running_var + m.eps).sqrt()          # what it does now: gain * x + offset
        offset = m.bias - m.running_mean * gain
        m.running_mean.copy_(mean)
        m.running_var.copy_(var)
        m.weight.copy_(gain * (var + m.eps).sqrt())
        m.bias.copy_(offset + gain * mean)


def unfold(path):
    """Returns the network of a model file, in evaluation mode; exits if the file cannot be trained on."""
    try:
        return Unfolder(path).net
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as e:    # what a damaged file may lead to
        raise SystemExit(f'{path}: no model file to train on: {e}')


def state_for(net, old):
    """Converts the state of `old` for `net`, whose windows and positions may differ: each position gets
    the mask slope of the nearest one."""
    nearest = (net.positions_hz()[:, None] - old.positions_hz()).abs().argmin(1)
    own = {k: v for k, v in net.state_dict().items() if k in GEOMETRY}
    return old.state_dict() | own | {'slope': old.slope.data[nearest]}
