"""Train a model: python3 -m training.train CONFIG DATA OUT [--weights FILE] [--resume] [--minutes N]

CONFIG is one of configs/; DATA is what prepare.py wrote; the weights to begin from are averaged ones or a model file.
OUT gets weights.ema (averaged weights: what is exported and scored), checkpoint.pt (to resume from), curve.tsv and
curve.png. `torchrun --virtual-local-rank --nproc-per-node N -m training.train ...` uses N GPUs of one host; each
process sees its own as the first, so that all of them use what the first one compiled. The schedule is one of time: N
minutes are N minutes on any machine. In its stable phase the learning rate is constant after its warm-up, in the decay
it falls to zero; each term of the loss has a weight for either. A run that is cut off and resumed elsewhere goes on as
if nothing had been.
"""
import argparse
import math
import os
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import torch
import torch.distributed as dist
from tqdm import tqdm

from training.data.clips import RATE, Mixer
from training.export import load
from training.loss.critic import Critic
from training.loss.metric import Metric
from training.loss.teacher import teacher_for
from training.loss.terms import Loss, phases
from training.network.net import Net
from training.unfold import calibrate, state_for, unfold

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402

LOG_EVERY = 50                                          # steps, or `log_every`; also how often the clock is read
WARM = 2                                                # passes before one becomes a CUDA graph; the first compiles


class Average:
    """Exponential moving average of a network's state."""

    def __init__(self, net):
        self.state = {k: v.detach().clone() for k, v in net.state_dict().items()}

    @torch.no_grad()
    def update(self, net, step):
        """After step `step` of `net`."""
        pairs = [(self.state[k], v) for k, v in net.state_dict().items() if v.is_floating_point()]
        torch._foreach_lerp_([a for a, _ in pairs], [v for _, v in pairs], 1 - min(.999, step / (step + 50)))


class Gradients:
    """gradients(clips) -> the loss's terms; the parameters have their gradients then. Clips are of one shape.

    After capture() all of it is one CUDA graph: the host launches one thing instead of thousands of kernels that take
    less time than their launch. Graphs that never run at once share the memory `pool`. What cannot be captured runs as
    before.
    """

    def __init__(self, net, loss, training):
        self.net, self.loss, self.training, self.graph = net, loss, training, None

    def compute(self, clips):
        """-> the terms of the loss; leaves the gradients in the parameters."""
        self.net.train(self.training)
        self.net.zero_grad()
        value, terms = self.loss(*clips)
        value.backward()
        return {k: v.detach() for k, v in terms.items()}

    def capture(self, clips, pool):
        """Makes a CUDA graph for clips of this shape."""
        self.clips, graph = [x.clone() for x in clips], torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool, torch.cuda.current_stream(), 'thread_local'):
                self.terms = self.compute(self.clips)
        except RuntimeError as e:
            tqdm.write(f'goes on without a CUDA graph: {e}')
            return
        self.grads, self.graph = [p.grad for p in self.net.parameters()], graph

    def __call__(self, clips):
        if self.graph is None:
            return self.compute(clips)
        torch._foreach_copy_(self.clips, list(clips))
        self.graph.replay()
        for p, g in zip(self.net.parameters(), self.grads):
            p.grad = g
        return self.terms


class Ahead:
    """make(step) for each step in turn; on a GPU in a thread and on a stream of its own, while the step before runs."""

    def __init__(self, make, device):
        self.make, self.stream, self.made = make, None, None
        if device != 'cpu':
            self.stream, self.thread = torch.cuda.Stream(), ThreadPoolExecutor(1)
            self.stream.wait_stream(torch.cuda.current_stream())    # which made what the mixers have in stock

    def run(self, step):
        with torch.cuda.stream(self.stream):
            return self.make(step), self.stream.record_event()

    def __call__(self, step):
        if self.stream is None:
            return self.make(step)
        clips, ready = (self.made or self.thread.submit(self.run, step)).result()
        self.made = self.thread.submit(self.run, step + 1)
        current = torch.cuda.current_stream()
        current.wait_event(ready)
        for x in clips:
            x.record_stream(current)                    # or its memory would be used again while the step reads it
        return clips


class Clock:
    """Seconds of training, the same on every process, those of an interrupted run included. It starts when every
    process is ready: on a new machine one may compile for minutes longer, and NCCL takes one to connect them."""

    def __init__(self, used, device):
        if dist.is_initialized():
            ready = torch.ones(1, device=device)
            dist.all_reduce(ready)
            ready.item()
        self.device, self.start = device, time.time() - used

    def read(self):
        """Seconds."""
        now = torch.tensor([time.time() - self.start], device=self.device, dtype=torch.float64)
        if dist.is_initialized():
            dist.broadcast(now, 0)
        return now.item()


def rate_at(t, step, part):
    """The learning rate when `part` of the minutes have passed."""
    return t['learning_rate'] * min(1, (step + 1) / t['warmup_steps'], max(0, 1 - part) / t['decay'])


def step_gradients(net, processes, most):
    """Averages the gradients over processes and clips them to the norm `most`; zeros all if one number is not finite.
    -> the norm before"""
    grads = [p.grad for p in net.parameters()]
    flat = torch.cat([g.flatten() for g in grads])
    if processes > 1:
        dist.all_reduce(flat)
        flat /= processes
    norm = flat.norm()
    flat = torch.where(norm.isfinite(), flat / (norm / most).clamp_min(1), 0)
    torch._foreach_copy_(grads, [f.view_as(g) for f, g in zip(flat.split([g.numel() for g in grads]), grads)])
    return norm


def save(path, content):
    """Writes a file atomically."""
    torch.save(content, path + '.part')
    os.replace(path + '.part', path)


def picture(names, table, path):
    """table [(step, seconds, *values)] -> a panel for each of the values; `names` are their titles."""
    steps, _, *values = zip(*table)
    fig, axes = plt.subplots(1, len(names), figsize=(3 * len(names), 3), layout='constrained')
    for ax, k, v in zip(axes, names, values):
        ax.plot(steps, v)
        ax.set(title=k, xlabel='step')
    fig.savefig(path)
    plt.close(fig)


def train(config, data, out, weights=None, resume=False, device='cuda' if torch.cuda.is_available()
          else 'cpu', mixer=None):
    """mixer: the source of the clips; made from the folder `data` if not given."""
    rank, processes = int(os.environ.get('RANK', 0)), int(os.environ.get('WORLD_SIZE', 1))
    if processes > 1:
        dist.init_process_group('gloo' if device == 'cpu' else 'nccl')
        if device != 'cpu':
            torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
    if device == 'cpu':
        torch.set_num_threads(1)                        # on a busy machine they would wait for each other, spinning
    else:
        torch.cuda.set_stream(torch.cuda.Stream())      # the usual one cannot become a graph
    t = config['training']
    torch.set_float32_matmul_precision('high')
    torch.manual_seed(t['seed'])
    os.makedirs(out, exist_ok=True)
    at = lambda name: os.path.join(out, name)

    net = Net(**config['network']).to(device)
    weights = None if resume else weights               # the checkpoint has all of it
    folded = bool(weights) and weights.endswith('.safetensors')
    if weights:
        net.load_state_dict(state_for(net, unfold(weights) if folded else load(weights)[0]))
    opt = torch.optim.AdamW(net.parameters(), t['learning_rate'], betas=(.9, .99), weight_decay=.01,
                            fused=device != 'cpu')
    samples = int(t['clip_seconds'] * RATE)
    if mixer is None:
        teacher = teacher_for(config['loss'], device, t.get('teacher'))
        mixer = Mixer(data, samples, device, t['seed'] * 1000 + rank, teacher)
    if folded:
        calibrate(net, mixer.batch(t['batch'])[0])
        if processes > 1:                               # each had clips of its own
            for v in net.state_dict().values():
                dist.broadcast(v, 0)
    stable, decay = phases(config['loss'])
    metric = None
    if stable['metric'] or decay['metric']:
        metric = Metric(device, max(1, min(16, os.cpu_count() // processes - 2)))
    critic = Critic(device) if stable['critic'] or decay['critic'] else None
    if t['long_every']:                                 # as much sound in fewer clips: too few for batch norms
        mixer_long = mixer.of_length(samples * t['batch'] // t['long_batch'])
        mixer_long.teacher = None

    def sources_of(weights):
        loss = Loss(net, samples, device, weights, metric, critic)
        sources = [(mixer, t['batch'], Gradients(net, loss, True))]
        if t['long_every']:
            long_loss = Loss(net, mixer_long.samples, device, weights)
            sources.append((mixer_long, t['long_batch'], Gradients(net, long_loss, False)))
        return sources

    sources = [sources_of(stable)]
    sources.append(sources[0] if decay == stable else sources_of(decay))
    is_long = lambda step: t['long_every'] > 0 and (step + 1) % t['long_every'] == 0

    def make(step):
        source, n, _ = sources[0][is_long(step)]
        return source.batch(n)

    average, used, step, rows = Average(net), 0., 0, []
    if resume:
        ck = torch.load(at('checkpoint.pt'), map_location=device)
        net.load_state_dict(ck['net'])
        opt.load_state_dict(ck['opt'])
        average.state, used, step, rows = ck['ema'], ck['used'], ck['step'], ck['rows']
        if rank:                                        # the checkpoint has the first process's draws
            mixer.gen.manual_seed((t['seed'] * 1000 + rank) * 1_000_000 + step)
        else:
            mixer.gen.set_state(ck['gen'].cpu())
        if metric and ck.get('metric'):
            metric.load(ck['metric'])
        if critic and ck.get('critic'):
            critic.load(ck['critic'])
    if device != 'cpu':
        net.core = torch.compile(net.core, dynamic=False)
        each = sources[0] if sources[1] is sources[0] else sources[0] + sources[1]
        for source, n, gradients in each:               # all minutes of it before the clock starts
            for _ in range(WARM):
                gradients(source.batch(n))
        pool = torch.cuda.graph_pool_handle()
        for source, n, gradients in each:
            gradients.capture(source.batch(n), pool)

    def keep(seconds):
        if rank:
            return
        os.makedirs(out, exist_ok=True)                 # what cleans a folder up may come by while a run goes on
        save(at('weights.ema'), dict(ema=average.state, cfg=net.cfg, step=step))
        save(at('checkpoint.pt'), dict(net=net.state_dict(), opt=opt.state_dict(), ema=average.state,
                                       gen=mixer.gen.get_state(), used=seconds, step=step, rows=rows,
                                       metric=metric and metric.state(), critic=critic and critic.state()))
        if rows:
            names = list(rows[-1][2])                   # which older rows of a resumed run may lack
            table = [(s, el, *(terms.get(k, math.nan) for k in names)) for s, el, terms in rows]
            picture(names, table, at('curve.png'))
            with open(at('curve.tsv'), 'w') as f:
                print('step', 'seconds', *names, sep='\t', file=f)
                for s, el, *values in table:
                    print(s, f'{el:.1f}', *(f'{v:.5f}' for v in values), sep='\t', file=f)

    clips_of = Ahead(make, device)
    total, log_every = t['minutes'] * 60, t.get('log_every', LOG_EVERY)
    clock = Clock(used, device)
    seconds, saved, sums, first = used, used, [], step
    bar = tqdm(total=round(total), initial=round(used), unit='s', disable=rank > 0, mininterval=5)
    while seconds < total:
        rate = rate_at(t, step, seconds / total)
        for group in opt.param_groups:
            group['lr'] = rate
        falling = seconds / total > 1 - t['decay']
        gradients = sources[falling][is_long(step)][2]
        terms = gradients(clips_of(step))
        terms = terms | dict(norm=step_gradients(net, processes, t['clip']))
        opt.step()
        if gradients.loss.metric and gradients.loss.weights['metric']:
            metric.learn(*gradients.loss.judged)
        if gradients.loss.critic and gradients.loss.weights['critic']:
            critic.learn(*gradients.loss.told, rate / t['learning_rate'])    # or it outruns a network that slows down
        step += 1
        average.update(net, step)
        sums.append(torch.stack(list(terms.values())))
        if step % log_every == 0 or step == first + 1:
            sums = torch.stack(sums)
            means = dict(zip(terms, sums.nanmean(0).tolist()))
            means['dropped'] = (~sums[:, -1].isfinite()).float().mean().item()
            seconds, sums = clock.read(), []
            rows.append((step, seconds, means))
            bar.n = round(seconds)
            bar.set_description(f'step {step} ' + ' '.join(f'{k} {v:.4f}' for k, v in means.items()))
            if seconds - saved > t['save_minutes'] * 60:
                saved = seconds
                keep(seconds)
    bar.close()
    keep(seconds)
    if metric:
        metric.close()
    if processes > 1:
        dist.destroy_process_group()
    return net


def main():
    ap = argparse.ArgumentParser(description='Train a model.')
    ap.add_argument('config')
    ap.add_argument('data')
    ap.add_argument('out')
    ap.add_argument('--weights', help='averaged weights or a model file to begin from, with a new optimiser')
    ap.add_argument('--resume', action='store_true', help='go on from OUT/checkpoint.pt')
    ap.add_argument('--mixer', choices=['mamba', 'mamba2', 'gru', 'lstm'],
                    help="what mixes in time, instead of the config's")
    ap.add_argument('--minutes', type=float, help="instead of the config's")
    a = ap.parse_args()
    with open(a.config, 'rb') as f:
        config = tomllib.load(f)
    if a.mixer:
        config['network']['mixer'] = a.mixer
    if a.minutes:
        config['training']['minutes'] = a.minutes
    train(config, a.data, a.out, a.weights, a.resume)


if __name__ == '__main__':
    main()
