"""Measure a training step's time:
python3 -m training.speed CONFIG DATA [--clips N] [--seconds S] [--steps N] [--kernels N]

Milliseconds of the whole step (the middle one of three rounds), then with parts left out, so that what a part takes is
the difference; on a GPU memory as well and, with --kernels, what each kernel takes.
"""
import argparse
import time
import tomllib

import torch

from training.data.clips import RATE, Mixer
from training.loss.teacher import teacher_for
from training.loss.terms import Loss, phases
from training.network.net import Net
from training.train import Average, step_gradients


def main():
    ap = argparse.ArgumentParser(description='What a step of training takes.')
    ap.add_argument('config')
    ap.add_argument('data')
    ap.add_argument('--clips', type=int, default=8)
    ap.add_argument('--seconds', type=float, default=2.)
    ap.add_argument('--steps', type=int, default=20, help='of a round')
    ap.add_argument('--kernels', type=int, default=0, help='show so many, those that take longest first')
    a = ap.parse_args()
    with open(a.config, 'rb') as f:
        config = tomllib.load(f)
    cuda = torch.cuda.is_available()
    device = 'cuda' if cuda else 'cpu'
    torch.set_float32_matmul_precision('high')
    torch.manual_seed(0)
    net = Net(**config['network']).to(device)
    opt = torch.optim.AdamW(net.parameters(), 1e-3, fused=cuda)
    teacher = teacher_for(config['loss'], device, config['training'].get('teacher'))
    mixer = Mixer(a.data, int(a.seconds * RATE), device, 0, teacher)
    loss, average = Loss(net, mixer.samples, device, phases(config['loss'])[1]), Average(net)
    if cuda:
        net.core = torch.compile(net.core, dynamic=False)

    def forward(clips):
        return loss(*clips)[0]

    def backward(clips):
        value = forward(clips)
        net.zero_grad()
        value.backward()

    def step():
        backward(mixer.batch(a.clips))
        step_gradients(net, 1, config['training']['clip'])
        opt.step()
        average.update(net, 1000)

    def took(f, *args):
        """-> ms until all is done, and until the last kernel is launched"""
        if cuda:
            torch.cuda.synchronize()
        start = time.time()
        for _ in range(a.steps):
            f(*args)
        asked = time.time() - start
        if cuda:
            torch.cuda.synchronize()
        return (time.time() - start) / a.steps * 1e3, asked / a.steps * 1e3

    for _ in range(3):
        step()
    ms, asked = sorted(took(step) for _ in range(3))[1]
    print(f'a step of {a.clips} clips of {a.seconds:g} s: {ms:.1f} ms ({asked:.1f} until the host has asked for it), '
          f'{a.clips / ms * 1e3:.1f} clips a second')
    clips = mixer.batch(a.clips)
    for name, f, *args in ('clips', mixer.batch, a.clips), ('network and loss', forward, clips), ('with gradients',
                                                                                                  backward, clips):
        print(f'  {name}: {took(f, *args)[0]:.1f} ms')
    if not cuda:
        return
    print(f'  memory: {torch.cuda.max_memory_allocated() / 2 ** 30:.1f} GiB')
    if a.kernels:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            step()
            torch.cuda.synchronize()
        rows = sorted(((e.self_device_time_total / 1e3, e.count, e.key) for e in p.key_averages()), reverse=True)
        print(f'  kernels: {sum(r[0] for r in rows):.1f} ms, {sum(r[1] for r in rows)} launches')
        for ms, n, name in rows[:a.kernels]:
            print(f'{ms:9.3f} ms {n:5}  {name[:100]}')


if __name__ == '__main__':
    main()
