"""What the exporter writes and what the engine's schema (schema.h) demands: the same names and shapes, for every
mixer."""
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open

from training.export import export
from training.network.net import Net

SCHEMA = next((Path(__file__).parents[2] / 'src').rglob('schema.h')).read_text()
PARTS = {name: re.findall(r'\b([TLM])\((\w+), "([\w.]*)", (\w+), (.*)\)(?: +/\*.*\*/)?(?: \\)?$', rows, re.M)
         for name, rows in re.findall(r'#define SCHEMA_(\w+)\(T, L, M\) \\\n((?:.*\\\n)*.*\n)', SCHEMA)}
HAS = {'ANY': ('mamba', 'mamba2', 'gru', 'lstm'), 'CONVOLVED': ('mamba', 'mamba2'), 'MAMBA': ('mamba',),
       'MAMBA2': ('mamba2',), 'GRU': ('gru',),
       'LSTM': ('lstm',)}


def configuration(text):
    """The C side's struct model_config, as far as shapes depend on it."""
    words = 'format', 'name', 'licence', 'training', 'mixer', 'band_gain_maximum', 'voice_encoder'
    v = {k: json.loads(t) for k, t in text.items() if k not in words}
    g = SimpleNamespace(channels=v['channels'], window=v['window'], synthesis=v['synthesis'], depth=v['depth'],
                        n_blocks=v['blocks'], n_time=v['time_layers'], n_freq=v['frequency_layers'],
                        kernels=v['kernels'], n_kernels=len(v['kernels']),
                        n_positions=v['linear_bins'] + max(0, len(v['band_edges']) - 1), mixer=text['mixer'],
                        d_inner=v.get('expand', 1) * v['channels'], d_state=v.get('d_state', 0),
                        d_conv=v.get('d_conv', 0), step_rank=v.get('step_rank', 0), head_dim=v.get('head', 0),
                        voice_size=v.get('voice_size', 0))
    g.n_half = (g.n_positions - 1) // 2
    g.convolved = g.d_inner + (2 * g.d_state if g.mixer == 'mamba2' else 0)
    g.mixer_in = {'mamba': lambda: 2 * g.d_inner, 'mamba2': lambda: g.convolved + g.d_inner + g.d_inner // g.head_dim,
                  'gru': lambda: 3 * g.channels,
                  'lstm': lambda: 4 * g.channels}[g.mixer]()
    return g


def demanded(g):
    """{name: shape} by the rows of schema.h."""
    tensors = {}

    def part(rows, prefix, n=0):
        for kind, _, name, when, shape in PARTS[rows]:
            if not (g.voice_size if when == 'VOICED' else g.mixer in HAS[when]):
                continue
            expression = shape.replace('g->', 'g.').replace('/', '//')
            expression = re.sub(r'model_(mixer_in|convolved)\(g\)', r'g.\1', expression)
            sizes = list(eval(f'({expression},)', {'g': g, 'n': n}))
            full = '.'.join(filter(None, (prefix, name)))
            if kind == 'T':
                tensors[full] = sizes
            else:
                tensors[full + '.weight'] = sizes
            if kind == 'L':
                tensors[full + '.bias'] = sizes[:1]

    part('NETWORK', '')
    for block in 'encoder', 'mask', 'phase':
        for i in range(g.depth):
            part('DENSE', f'{block}.{i}', i)
    part('UP', 'mask.up', 1)
    part('UP', 'phase.up', 2)
    for b in range(g.n_blocks):
        part('BLOCK', f'block.{b}')
        for i in range(g.n_time):
            part('TIME', f'block.{b}.time.{i}')
        for i in range(g.n_freq):
            part('FREQ', f'block.{b}.freq.{i}')
            for k in range(g.n_kernels):
                part('PRIME', f'block.{b}.freq.{i}.prime.{k}', k)
    return tensors


@pytest.mark.parametrize('mixer', ['mamba', 'mamba2', 'gru', 'lstm'])
@pytest.mark.parametrize('voice', [0, 3])
def test_exporter_writes_what_the_schema_demands(mixer, voice, tmp_path):
    torch.manual_seed(0)
    path = tmp_path / 'a.safetensors'
    export(Net(c=16, blocks=2, nt=2, nf=1, mixer=mixer, voice=voice), path, 'a', encoder='b' if voice else None)
    with safe_open(path, 'pt') as f:
        written, g = {name: f.get_slice(name).get_shape() for name in f.keys()}, configuration(f.metadata())
    assert sum(map(len, PARTS.values())) == SCHEMA.count('", ')      # every row was read
    assert written == demanded(g)
