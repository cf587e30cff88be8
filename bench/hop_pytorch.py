"""python3 bench/hop_pytorch.py [--hops N] MODEL.safetensors...

What a hop costs in PyTorch, from samples to samples: the network of docs/model-format.md one frame at a time with its
state kept on the GPU, every operation launched by itself ("eager") and as one captured CUDA graph. bench/hop.c measures
the engine the same way. First the network is held to tests/fixtures, on the processor.
"""
import argparse, ctypes, json, math, pathlib, struct, time
import numpy as np
import torch
import torch.nn.functional as F

FIXTURES = pathlib.Path(__file__).parent.parent / 'tests' / 'fixtures'


def load(path, device):
    """Metadata and tensors of a model file."""
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack_from('<Q', data)
    header = json.loads(data[8:8 + size])
    meta = header.pop('__metadata__')
    tensors = {}
    for name, t in header.items():
        begin, end = t['data_offsets']
        a = np.frombuffer(data, '<f4', (end - begin) // 4, 8 + size + begin).reshape(t['shape'])
        tensors[name] = torch.from_numpy(a.copy()).to(device)
    for key, text in meta.items():
        try:
            meta[key] = json.loads(text)
        except ValueError:
            pass  # a name, a text
    return meta, tensors


class Hop:
    """step() reads the hop in self.input and writes self.output. Maps are [positions, channels]."""

    def __init__(self, path, device):
        m, self.t = load(path, device)
        self.m, new = m, lambda *shape: torch.zeros(shape, device=device)
        self.window, self.hop, self.linear = m['window'], m['hop'], m['linear_bins']
        c, edges = m['channels'], m['band_edges']
        self.bands, bins = max(len(edges) - 1, 0), m['window'] // 2 + 1
        positions = self.linear + self.bands
        half = (positions - 3) // 2 + 1
        self.inner, self.states, self.rank = m['expand'] * c, m['d_state'], m['step_rank']
        if self.bands:
            mean, spread = np.zeros((bins - self.linear, self.bands)), np.zeros((bins - self.linear, self.bands))
            for b in range(self.bands):
                mean[edges[b] - self.linear:edges[b + 1] - self.linear, b] = 1 / (edges[b + 1] - edges[b])
            centres = (np.array(edges[:-1]) + np.array(edges[1:]) - 1) / 2
            for i in range(bins - self.linear):
                spread[i] = [np.interp(self.linear + i, centres, np.eye(self.bands)[b]) for b in range(self.bands)]
            self.band_mean, self.band_spread = (torch.tensor(a, dtype=torch.float32, device=device)
                                                for a in (mean, spread))
        self.input, self.output = new(self.hop), new(self.hop)
        self.past, self.overlap = new(self.window), new(m['synthesis'])
        frames = 2 ** m['depth'] + 1
        self.maps = {n: new(m['depth'], frames, positions if n == 'encoder' else half, c)
                     for n in ('encoder', 'mask', 'phase')}
        self.frames = [torch.tensor([frames - 1 - k * 2 ** i for k in (2, 1, 0)], device=device)
                       for i in range(m['depth'])]
        self.one = torch.tensor([1., 0.], device=device)
        layers = [f'block.{b}.time.{i}' for b in range(m['blocks']) for i in range(m['time_layers'])]
        self.conv = {n: new(m['d_conv'], half, self.inner) for n in layers}
        self.scan = {n: new(half, self.inner, self.states) for n in layers}
        taps = {n: t for n, t in self.t.items() if n.endswith('taps') and '.conv.' not in n}
        self.w = {n: t.movedim(-1, 0).unsqueeze(1).contiguous() for n, t in taps.items()}

    def lin(self, x, name):
        return F.linear(x, self.t[name + '.weight'], self.t[name + '.bias'])

    def prelu(self, x, name):
        return torch.where(x < 0, x * self.t[name + '.prelu'], x)

    def norm(self, x):
        return F.layer_norm(x, x.shape[-1:], eps=self.m['norm_epsilon'])

    def along(self, x, name):
        """Depthwise over frequency."""
        w = self.w[name + '.taps']
        return F.conv1d(x.t().unsqueeze(0), w, padding=w.shape[-1] // 2, groups=x.shape[1])[0].t()

    def dense(self, x, name):
        maps, depth = self.maps[name], self.m['depth']
        maps[:, :-1] = maps[:, 1:].clone()
        maps[0, -1] = x
        for i in range(depth):
            frames = maps[:i + 1].index_select(1, self.frames[i]).flip(0)
            taken = frames.permute(0, 3, 1, 2).flatten(0, 1)
            w = self.w[f'{name}.{i}.taps']
            x = F.conv2d(taken.unsqueeze(0), w, padding=(0, 1), groups=taken.shape[0])[0, :, 0].t()
            x = self.prelu(self.lin(x, f'{name}.{i}'), f'{name}.{i}')
            if i + 1 < depth:
                maps[i + 1, -1] = x
        return x

    def time_layer(self, x, name):
        a, b = self.lin(self.norm(x), name + '.gate').chunk(2, -1)
        x = x + self.lin(a * b, name + '.proj')
        u, z = self.lin(self.norm(x), name + '.in').chunk(2, -1)
        past, h = self.conv[name], self.scan[name]
        past[:-1] = past[1:].clone()
        past[-1] = u
        u = F.silu((past * self.t[name + '.conv.taps'].unsqueeze(1)).sum(0) + self.t[name + '.conv.bias'])
        B, C, q = F.linear(u, self.t[name + '.select.weight']).split([self.states, self.states, self.rank], -1)
        dt = F.softplus(self.lin(q, name + '.step')).unsqueeze(-1)
        h.copy_(torch.exp(dt * self.t[name + '.decay']) * h + dt * u.unsqueeze(-1) * B.unsqueeze(1))
        y = ((h * C.unsqueeze(1)).sum(-1) + self.t[name + '.pass'] * u) * F.silu(z)
        return x + self.lin(y, name + '.out')

    def freq_layer(self, x, name):
        a, b = self.along(self.lin(self.norm(x), name + '.gate'), name + '.gate').chunk(2, -1)
        v = a * b
        x = x + self.lin(v * self.lin(v.mean(0), name + '.attention'), name + '.proj')
        chunks, parts = self.lin(self.norm(x), name + '.up').chunk(len(self.m['kernels']), -1), []
        for k, u in enumerate(chunks):
            prime = f'{name}.prime.{k}'
            parts.append(self.lin(self.along(u, prime + '.mixed'), prime) * self.along(u, prime))
        return x + self.lin(torch.cat(parts, -1), name + '.down')

    def up(self, x, name):
        even = self.lin(torch.cat([F.pad(x, (0, 0, 1, 0)), F.pad(x, (0, 0, 0, 1))], -1), name + '.even')
        odd = F.pad(self.lin(x, name + '.odd'), (0, 0, 0, 1))
        y = torch.stack([even, odd], 1).flatten(0, 1)[:-1]
        return self.lin(self.prelu(y, name), name + '.head')

    def step(self):
        m, t = self.m, self.t
        self.past.copy_(torch.cat([self.past[self.hop:], self.input]))
        X = torch.fft.rfft(self.past * t['window.analysis'])
        low = X[:self.linear] / m['scale']
        magnitude = low.abs().clamp_min(m['magnitude_minimum'])
        compressed = magnitude ** m['compression']
        unit = low / magnitude
        x = torch.stack([compressed, compressed * unit.real, compressed * unit.imag], -1)
        if self.bands:
            power = (X[self.linear:].abs() / m['scale']).square() @ self.band_mean
            x = torch.cat([x, F.pad(power.clamp_min(m['power_minimum'])[:, None] ** (m['compression'] / 2), (0, 2))])
        x = self.dense(self.prelu(self.lin(x, 'embed'), 'embed'), 'encoder')
        x = self.prelu(self.lin(torch.cat([x[i:x.shape[0] - 2 + i:2] for i in range(3)], -1), 'down'), 'down')
        for b in range(m['blocks']):
            for stage in ('time', 'freq'):
                before = x
                for i in range(m[{'time': 'time_layers', 'freq': 'frequency_layers'}[stage]]):
                    x = getattr(self, stage + '_layer')(x, f'block.{b}.{stage}.{i}')
                x = x + t[f'block.{b}.{stage}.skip'] * before
        mask = m['mask_ceiling'] * torch.sigmoid(t['mask.slope'] * self.up(self.dense(x, 'mask'), 'mask.up')[:, 0])
        r = self.up(self.dense(x, 'phase'), 'phase.up')[:self.linear] + self.one
        gain = mask.clamp_min(m['mask_minimum']) ** (1 / m['compression'])
        r = r * torch.rsqrt(r.square().sum(-1, keepdim=True) + m['rotation_epsilon'])
        Y = X[:self.linear] * gain[:self.linear] * torch.view_as_complex(r)
        if self.bands:
            bands = gain[self.linear:]
            if m['band_gain_maximum'] != 'none':
                bands = bands.clamp_max(m['band_gain_maximum'])
            Y = torch.cat([Y, X[self.linear:] * (self.band_spread @ bands)])
        sums = torch.fft.irfft(Y, n=self.window)[self.window - m['synthesis']:] * t['window.synthesis'] + self.overlap
        self.output.copy_(sums[:self.hop])
        self.overlap.copy_(F.pad(sums[self.hop:], (0, self.hop)))


def signal(n):
    """The fixtures' input (training/fixtures.py)."""
    state, out = 1, np.empty(n, np.float32)
    for i in range(n):
        state = (1664525 * state + 1013904223) % 2 ** 32
        out[i] = ((state >> 16) - 32768) * (0, 1, 16, 4)[i // 4000 % 4] / 2 ** 20
    return torch.from_numpy(out)


def distance_db(name, hops=150):
    net = Hop(FIXTURES / f'{name}.safetensors', 'cpu')
    x, y = signal(hops * net.hop), []
    for i in range(hops):
        net.input.copy_(x[i * net.hop:][:net.hop])
        net.step()
        y.append(net.output.clone())
    y = torch.cat(y).double().numpy()[net.m['synthesis'] - net.hop:]  # the fixture is not delayed
    should = np.fromfile(FIXTURES / f'{name}.output', '<f4')[:len(y)].astype(np.float64)
    return 10 * math.log10((should ** 2).sum() / ((y - should) ** 2).sum())


def measure(name, net, run, hops, paced):
    """One hop from page-locked memory to page-locked memory; waits for it."""
    host_in, host_out = torch.rand(net.hop).sub_(.5).mul_(.4).pin_memory(), torch.empty(net.hop).pin_memory()
    took, cpu_ns, due = [], 0, time.monotonic_ns()
    for i in range(hops + 50):
        if paced:
            due += 10 ** 9 * net.hop // net.m['rate']
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        cpu, start = time.thread_time_ns(), time.monotonic_ns()
        net.input.copy_(host_in, non_blocking=True)
        run()
        host_out.copy_(net.output, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        if i >= 50:
            took.append((time.monotonic_ns() - start) / 1e3)
            cpu_ns += time.thread_time_ns() - cpu
    p50, p99 = np.percentile(took, (50, 99))
    print(f'{name}, {"paced" if paced else "back to back"}: p50 {p50:.1f} us, p99 {p99:.1f} us; '
          f'{cpu_ns / 1e3 / hops:.1f} us of CPU time a hop', flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('models', nargs='+')
    p.add_argument('--hops', type=int, default=2000)
    a = p.parse_args()
    ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK: sleep as precisely as a real-time thread
    torch.set_grad_enabled(False)
    for name in ('narrow', 'wide'):
        print(f'{name}: {distance_db(name):.1f} dB from the fixture', flush=True)
    for path in a.models:
        net = Hop(path, 'cuda')
        print(f'{net.m["name"]} in PyTorch {torch.__version__} on {torch.cuda.get_device_name()}')
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(5):
                net.step()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                net.step()
            for run, how, hops in ((net.step, 'eager', a.hops // 4), (graph.replay, 'CUDA graph', a.hops)):
                for paced in (False, True):
                    measure(how, net, run, hops, paced)


if __name__ == '__main__':
    main()
