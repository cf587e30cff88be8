"""The network and its kernels against their definitions, at toy size; the Triton kernels only where there is a GPU."""
import pytest
import torch

from depthwise import depthwise, depthwise_reference
from network import Net
from scan import scan, scan_reference

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason='no GPU')


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


@pytest.mark.parametrize('synthesis', [1024, 512, 768])
def test_analysis_then_synthesis_is_identity(synthesis):
    net = Net(c=8, blocks=1, nt=1, nf=1, synthesis=synthesis)
    a = torch.randn(1, net.hop * 40)
    n = net.hop * 36
    assert (net.istft(net.stft(a), n) - a[:, :n]).abs().max() < 1e-5


def scan_inputs(device='cpu', dtype=torch.float64, n=2, t=5, d=4, s=3):
    torch.manual_seed(1)
    r = lambda *shape: torch.randn(*shape, dtype=dtype, device=device)
    return [x.requires_grad_() for x in (r(n, t, d), r(n, t, d).exp() * .3, -r(d, s).exp(), r(n, t, s), r(n, t, s), r(d))]


def test_scan_gradients():
    assert torch.autograd.gradcheck(scan_reference, scan_inputs())


def test_scan_is_a_running_sum_without_decay():
    u, dt, A, B, C, Dv = (x.detach() for x in scan_inputs())
    y = scan_reference(u, dt, 0 * A, B, C, Dv)
    h = torch.einsum('ntd,nts->ntds', dt * u, B).cumsum(1)
    assert torch.allclose(y, torch.einsum('ntds,nts->ntd', h, C) + Dv * u)


@pytest.mark.parametrize('kt,kf,dt,m', [(3, 3, 2, 1), (1, 5, 1, 2)])
def test_depthwise_gradients_and_convolution(kt, kf, dt, m):
    torch.manual_seed(2)
    x = torch.randn(2, 6, 7, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(kt * kf, m * 4, dtype=torch.float64, requires_grad=True)
    f = lambda x, w: depthwise_reference(x, w, kt, kf, dt)
    assert torch.autograd.gradcheck(f, (x, w))
    padded = torch.nn.functional.pad(x.permute(0, 3, 1, 2).repeat(1, m, 1, 1), (kf // 2, kf // 2, (kt - 1) * dt, 0))
    y = torch.nn.functional.conv2d(padded, w.t().view(m * 4, 1, kt, kf), dilation=(dt, 1), groups=m * 4)
    assert torch.allclose(f(x, w), y.permute(0, 2, 3, 1))


def relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def same_on_gpu(fast, reference, inputs, dtype):
    """Output and gradients of `fast` in dtype against `reference` in float64; names the worst."""
    exact = [x.detach().to(dtype).double().requires_grad_() for x in inputs]
    mine = [x.detach().to(dtype).requires_grad_() for x in inputs]
    y, z = fast(*mine), reference(*exact)
    g = torch.randn_like(y)
    y.backward(g)
    z.backward(g.double())
    errors = [relative(y, z)] + [relative(a.grad, b.grad) for a, b in zip(mine, exact)]
    assert max(errors) < (2e-2 if dtype == torch.bfloat16 else 5e-3), errors    # scan states are kept in bfloat16


@needs_gpu
@pytest.mark.parametrize('d', [16, 32, 128])
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_scan_kernels(d, dtype):
    u, dt, A, B, C, Dv = (x.detach() for x in scan_inputs('cuda', torch.float32, 6, 70, d, 16))
    mixed = lambda u, dt, B, C: scan(u, dt, A, B, C, Dv)
    plain = lambda u, dt, B, C: scan_reference(u, dt, A.double(), B, C, Dv.double())
    same_on_gpu(mixed, plain, (u, dt, B, C), dtype)
    if dtype == torch.float32:
        same_on_gpu(scan, scan_reference, (u, dt, A, B, C, Dv), dtype)


@needs_gpu
@pytest.mark.parametrize('kt,kf,dt,m', [(3, 3, 1, 1), (3, 3, 8, 1), (1, 3, 1, 1), (1, 11, 1, 2), (1, 23, 1, 2), (1, 31, 1, 2)])
@pytest.mark.parametrize('c', [16, 32, 64, 128])
def test_depthwise_kernels(kt, kf, dt, m, c):
    torch.manual_seed(3)
    x, w = torch.randn(2, 37, 41, c, device='cuda'), torch.randn(kt * kf, m * c, device='cuda')
    same_on_gpu(lambda x, w: depthwise(x, w, kt, kf, dt), lambda x, w: depthwise_reference(x, w, kt, kf, dt), (x, w), torch.float32)
    mine = x.bfloat16().requires_grad_()
    y = depthwise(mine, w, kt, kf, dt)
    assert relative(y, depthwise_reference(mine.double(), w.double(), kt, kf, dt)) < 1e-2
