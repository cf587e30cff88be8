"""python3 -m training.together OUT.safetensors --name NAME FIRST.safetensors FURTHER.safetensors... [--shares S...]

Writes model files of one network each as one model of several, whose output is the mean of theirs, weighted by shares
of at most 1 (docs/model-format.md): networks that were trained apart err differently, and the mean errs less. Rate,
windows and hop must be the same.
"""
import argparse

from safetensors import safe_open

from training.export import write

OF_ALL = 'format', 'name', 'licence', 'rate', 'window', 'synthesis', 'hop', 'voice_size', 'voice_encoder'


def read(path):
    """-> metadata and tensors of a model file"""
    with safe_open(path, 'numpy') as f:
        return f.metadata(), {name: f.get_tensor(name) for name in f.keys()}


def together(paths, name, shares=None):
    """-> metadata and tensors of one model of all these networks"""
    shares = shares or [1] * len(paths)
    if len(shares) != len(paths):
        raise SystemExit(f'{len(shares)} shares for {len(paths)} networks')
    metadata, tensors = {}, {}
    for number, (path, share) in enumerate(zip(paths, shares), 1):
        own, more = read(path)
        if 'networks' in own:
            raise SystemExit(f'{path}: has several networks itself')
        own |= {'name': name, 'share': f'{share:g}'}
        if number == 1:
            metadata, tensors = own | {'networks': str(len(paths))}, more
            continue
        if any(own.get(k) != metadata.get(k) for k in OF_ALL):
            raise SystemExit(f'{path}: rate, windows, hop or licence are not those of {paths[0]}')
        metadata |= {f'{number}.{k}': v for k, v in own.items() if metadata.get(k) != v}
        tensors |= {f'{number}.{k}': v for k, v in more.items()}
    return metadata, tensors


if __name__ == '__main__':
    p = argparse.ArgumentParser(description='Write several networks as one model.')
    p.add_argument('out')
    p.add_argument('networks', nargs='+', metavar='network')
    p.add_argument('--name', required=True)
    p.add_argument('--shares', nargs='+', type=float)
    a = p.parse_args()
    write(a.out, *together(a.networks, a.name, a.shares))
