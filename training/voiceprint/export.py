"""python3 -m training.voiceprint.export CHECKPOINT OUT.safetensors --name NAME --licence TEXT --training TEXT [--half]

Writes a trained voice print as a file that needs no formula but those of its layers: windows and bands are tensors.
"""
import argparse

import torch

from training.export import write
from training.voiceprint import network
from training.voiceprint.network import Voiceprint

FORMAT = 'primeknet-voice-1'


def metadata(net, **texts):
    """-> {key: text}"""
    e = net.encoder
    numbers = dict(rate=network.RATE, window=network.WINDOW, hop=network.HOP, bands=network.BANDS, stack=network.STACK,
                   floor=network.FLOOR, channels=e.gru.hidden_size, layers=e.gru.num_layers, size=network.SIZE,
                   span=network.SPAN, step=network.STEP, least=network.LEAST, silence=network.SILENCE,
                   quiet=network.QUIET)
    return {'format': FORMAT, **texts, **{k: f'{v:g}' for k, v in numbers.items()}}


def tensors(net):
    """-> {name: array}, as the file has them"""
    e = net.encoder
    named = {'window': net.features.window, 'bands': net.features.bands, 'in.weight': e.inp.weight,
             'in.bias': e.inp.bias, 'in.prelu': e.act.weight}
    for i in range(e.gru.num_layers):
        for part, of in ('in', 'ih'), ('state', 'hh'):
            for kind in 'weight', 'bias':
                named[f'gru.{i}.{part}.{kind}'] = getattr(e.gru, f'{kind}_{of}_l{i}')
    for name in 'pool', 'out':
        layer = getattr(e, name)
        named |= {f'{name}.weight': layer.weight, f'{name}.bias': layer.bias}
    return {name: t.detach().cpu().numpy() for name, t in named.items()}


def load(path):
    """-> Voiceprint of a file"""
    from safetensors import safe_open
    with safe_open(path, 'pt') as f:
        meta, found = f.metadata(), {name: f.get_tensor(name).float() for name in f.keys()}
    if meta['format'] != FORMAT:
        raise SystemExit(f"{path} is of format {meta['format']}, not {FORMAT}")
    net = Voiceprint(int(meta['channels']), int(meta['layers']))
    for key in network.__dict__.keys() & {k.upper() for k in meta}:
        if float(meta[key.lower()]) != getattr(network, key):
            raise SystemExit(f'{path} has another {key.lower()}')
    own = {'in': 'inp', 'in.prelu': 'act.weight'}
    state = {}
    for name, t in found.items():
        stem, _, kind = name.rpartition('.')
        if stem.startswith('gru.'):
            _, i, part = stem.split('.')
            state[f"encoder.gru.{kind}_{dict(**{'in': 'ih'}, state='hh')[part]}_l{i}"] = t
        elif name in ('window', 'bands'):
            state[f'features.{name}'] = t
        else:
            state['encoder.' + (own.get(name) or f'{own.get(stem, stem)}.{kind}')] = t
    net.load_state_dict(state)
    return net.eval()


def main():
    ap = argparse.ArgumentParser(description='Write a trained voice print as a file.')
    ap.add_argument('checkpoint')
    ap.add_argument('out')
    for text in 'name', 'licence', 'training':
        ap.add_argument(f'--{text}', required=True)
    ap.add_argument('--half', action='store_true', help='weights in half precision')
    a = ap.parse_args()
    state = torch.load(a.checkpoint, map_location='cpu')
    net = Voiceprint(*state['shape'])
    net.load_state_dict(state['net'])
    write(a.out, metadata(net, name=a.name, licence=a.licence, training=a.training), tensors(net), a.half)


if __name__ == '__main__':
    main()
