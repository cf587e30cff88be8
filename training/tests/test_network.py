"""The network and its kernels against their definitions, at toy size; without a GPU Triton's interpreter runs the
kernels."""
import pytest
import torch

from training.network import net as network
from training.network.depthwise import depthwise_reference
from training.network.net import Net, TimeBlock
from training.network.scan import scan

device = 'cuda' if torch.cuda.is_available() else 'cpu'


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net(c=8, blocks=1, nt=1, nf=1).eval()


def test_the_future_changes_nothing_before_it(net):
    a = torch.randn(1, net.hop * 40)
    b = torch.cat([a[:, :net.hop * 20], torch.randn(1, net.hop * 20)], 1)
    with torch.no_grad():
        ya, yb = net(a)[2], net(b)[2]
    assert torch.equal(ya[:, :20], yb[:, :20])
    assert not torch.equal(ya[:, 20:], yb[:, 20:])


def test_maps_are_as_precise_as_the_products(net):
    """Were one of them float32, all that come after it would be, at twice the bytes."""
    seen = {}
    for name in 'embed', 'enc', 'down', 'stages.0.time.0', 'stages.0.freq.0', 'stages.0', 'mask_dec':
        net.get_submodule(name).register_forward_hook(lambda m, args, y, name=name: seen.update({name: y.dtype}))
    with torch.autocast(device, torch.bfloat16):
        net.to(device)(torch.randn(1, net.hop * 8, device=device))
    assert len(seen) == 7 and {*seen.values()} == {torch.bfloat16}, seen


@pytest.mark.parametrize('synthesis', [1024, 512, 768])
def test_analysis_then_synthesis_is_identity(synthesis):
    net = Net(c=8, blocks=1, nt=1, nf=1, synthesis=synthesis)
    a = torch.randn(1, net.hop * 40)
    n = net.hop * 36
    assert (net.istft(net.stft(a), n) - a[:, :n]).abs().max() < 1e-5


def scan_inputs(device='cpu', dtype=torch.float64, n=2, t=5, d=4, s=3):
    torch.manual_seed(1)
    r = lambda *shape: torch.randn(*shape, dtype=dtype, device=device)
    return [x.requires_grad_()
            for x in (r(n, t, d), r(n, t, d).exp() * .3, -r(d, s).exp(), r(n, t, s), r(n, t, s), r(d))]


def test_scan_gradients():
    assert torch.autograd.gradcheck(scan, scan_inputs())


def test_scan_is_a_running_sum_without_decay():
    u, dt, A, B, C, Dv = (x.detach() for x in scan_inputs())
    y = scan(u, dt, 0 * A, B, C, Dv)
    h = torch.einsum('ntd,nts->ntds', dt * u, B).cumsum(1)
    assert torch.allclose(y, torch.einsum('ntds,nts->ntd', h, C) + Dv * u)


@pytest.mark.parametrize('kt,kf,dt', [(3, 3, 2), (1, 5, 1)])
def test_depthwise_gradients_and_convolution(kt, kf, dt):
    torch.manual_seed(2)
    x = torch.randn(2, 6, 7, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(kt * kf, 4, dtype=torch.float64, requires_grad=True)
    f = lambda x, w: depthwise_reference(x, w, kt, kf, dt)
    assert torch.autograd.gradcheck(f, (x, w))
    padded = torch.nn.functional.pad(x.permute(0, 3, 1, 2), (kf // 2, kf // 2, (kt - 1) * dt, 0))
    y = torch.nn.functional.conv2d(padded, w.t().view(4, 1, kt, kf), dilation=(dt, 1), groups=4)
    assert torch.allclose(f(x, w), y.permute(0, 2, 3, 1))


def relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def same(quick, plain, inputs, dtype, most):
    """Output and gradients of `quick` in dtype against `plain` in float64."""
    mine = [x.detach().to(dtype, copy=True).requires_grad_() for x in inputs]
    exact = [x.detach().double().requires_grad_() for x in mine]
    y, z = quick(*mine), plain(*exact)
    g = torch.randn_like(y)
    y.backward(g)
    z.backward(g.double())
    errors = [relative(y, z)] + [relative(a.grad, b.grad) for a, b in zip(mine, exact)]
    assert max(errors) < most, errors


@pytest.mark.parametrize('kt,dt,c,n', [(3, 1, 16, 2), (3, 4, 64, 1), (1, 1, 128, 1)])
def test_depthwise_kernels(kt, dt, c, n):
    depthwise_op = pytest.importorskip('training.network.depthwise_triton').depthwise_op
    torch.manual_seed(3)
    maps, w = [torch.randn(2, 7, 5, c, device=device) for _ in range(n)], torch.randn(n, kt * 3, c, device=device)
    plain = lambda w, *maps: torch.cat([depthwise_reference(x, k, kt, 3, dt) for x, k in zip(maps, w)], -1)
    same(lambda w, *maps: depthwise_op(maps, w, kt, dt), plain, (w, *maps), torch.float32, 1e-5)
    same(lambda *maps: depthwise_op(maps, w, kt, dt), lambda *maps: plain(w.double(), *maps), maps, torch.bfloat16,
         1e-2)


@pytest.mark.parametrize('c,dtype', [(32, torch.float32), (16, torch.bfloat16)])
def test_mamba_kernels(c, dtype, monkeypatch):
    """A time stage by the kernels against its definition; gradients see scan states in bfloat16."""
    mamba_triton = pytest.importorskip('training.network.mamba_triton')
    monkeypatch.setattr(network, 'mamba_op', mamba_triton.mamba_op, raising=False)
    monkeypatch.setattr(mamba_triton, 'RUN', 8)         # several runs in few steps
    monkeypatch.setattr(mamba_triton, 'KEEP', 4)
    torch.manual_seed(4)
    m = TimeBlock(c).to(device)
    x = torch.randn(9, 11, c, device=device).to(dtype).requires_grad_()
    exact = TimeBlock(c).double().to(device)
    exact.load_state_dict(m.state_dict())
    z = x.detach().double().requires_grad_()
    with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
        y = m.mixer.between(m.inp, x, m.out)
    plain = exact.out(exact.mixer(exact.inp(z)))
    g = torch.randn_like(y)
    y.backward(g)
    plain.backward(g.double())
    errors = dict(y=relative(y, plain), x=relative(x.grad, z.grad))
    errors |= {k: relative(p.grad, dict(exact.named_parameters())[k].grad) for k, p in m.named_parameters()
               if p.grad is not None}
    assert len(errors) == 2 + 4 + 9
    assert max(errors.values()) < (1e-2 if dtype == torch.float32 else 5e-2), errors


def test_the_compiler_traces_the_network(net):
    """As train.py compiles it, without the code that makes kernels of it."""
    x = torch.randn(1, 6, net.linear + net.bands, 3)
    with torch.no_grad():
        traced = torch.compile(net.core, dynamic=False, backend='eager', fullgraph=True)(x)
        for a, b in zip(traced, net.core(x)):
            torch.testing.assert_close(a, b)
