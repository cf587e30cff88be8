"""How the terms of the loss pull at a network:
python3 -m training.gradients CONFIG WEIGHTS DATA [--batches N] [--clips N] [--seconds S]

WEIGHTS are averaged weights or a model file, DATA is what prepare.py wrote. For each term: its value, the norm of its
gradient in all parameters times its weight in the decay, and the cosine of its gradient to each other term's and to
that of the weighted sum; means over batches, of norms the median. Terms of which the cosine is negative fight. The
discriminators', which only a training has, are left out.
"""
import argparse
import tomllib

import torch

from training.data.clips import RATE, Mixer
from training.loss.teacher import teacher_for
from training.loss.terms import Loss, phases
from training.network.net import Net
from training.unfold import calibrate, unfold


def pulls(net, loss, clips):
    """-> {term: value}, {term: its gradient, times its weight}"""
    terms = {k: v for k, v in loss(*clips)[1].items() if loss.weights[k]}
    parameters = list(net.parameters())
    gradients = {}
    for k, v in terms.items():
        each = torch.autograd.grad(v, parameters, retain_graph=True, allow_unused=True)
        flat = [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(parameters, each)]
        gradients[k] = loss.weights[k] * torch.cat(flat)
    return {k: v.item() for k, v in terms.items()}, gradients


def cosines(gradients):
    """[terms, terms + 1]: of each term's gradient to the others' and to their sum."""
    g = torch.stack(list(gradients.values()))
    rows = torch.nn.functional.normalize(g, dim=1)
    return rows @ torch.cat([rows, torch.nn.functional.normalize(g.sum(0), dim=0)[None]]).T


def main():
    ap = argparse.ArgumentParser(description='How the terms of the loss pull at a network.')
    ap.add_argument('config')
    ap.add_argument('weights')
    ap.add_argument('data')
    ap.add_argument('--batches', type=int, default=8)
    ap.add_argument('--clips', type=int, default=4, help='in each')
    ap.add_argument('--seconds', type=float, default=3.)
    a = ap.parse_args()
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    with open(a.config, 'rb') as f:
        config = tomllib.load(f)
    mixer = Mixer(a.data, int(a.seconds * RATE), device, 0, teacher_for(config['loss'], device))
    if a.weights.endswith('.safetensors'):
        net = unfold(a.weights).to(device)
        calibrate(net, mixer.batch(a.clips)[0])
    else:
        net = Net(**config['network']).to(device)
        net.load_state_dict(torch.load(a.weights, map_location=device)['ema'])
    net.eval()
    loss = Loss(net, mixer.samples, device, phases(config['loss'])[1] | dict(metric=0., critic=0.))
    found = [pulls(net, loss, mixer.batch(a.clips)) for _ in range(a.batches)]
    names = list(found[0][0])
    norms = torch.stack([torch.stack([g.norm() for g in gradients.values()]) for _, gradients in found])
    norms = norms.median(0).values
    angles = torch.stack([cosines(gradients) for _, gradients in found]).mean(0)
    print(f"{'':12}{'value':>12}{'norm':>12}" + ''.join(f'{k:>12}' for k in (*names, 'sum')))
    for k, norm, row in zip(names, norms.tolist(), angles.tolist()):
        value = sum(terms[k] for terms, _ in found) / len(found)
        print(f'{k:12}{value:12.4f}{norm:12.4f}' + ''.join(f'{c:12.2f}' for c in row))


if __name__ == '__main__':
    main()
