"""A network for twice the hop."""
import torch

from network import Net
from rehop import half_as_far, rehop


@torch.no_grad()
def test_what_does_not_change_gets_the_same_mask():
    torch.manual_seed(0)
    net = Net(c=8, blocks=1, nt=1, nf=1).eval()
    for p in net.parameters():
        p += .1 * torch.randn_like(p)
    twice = rehop(net)
    assert twice.hop == 2 * net.hop
    frame = torch.randn(1, 1, net.linear + net.bands, 3)
    owed, got = (n.core(frame.expand(-1, frames, -1, -1))[0][:, -1] for n, frames in ((net, 400), (twice, 200)))
    assert (got - owed).abs().max() < 1e-3 * owed.std()


def test_taps_keep_their_place_in_time():
    """The sum and the centre of gravity stay: a delay of so many samples."""
    taps = torch.randn(4, 3, 2)
    new = half_as_far(taps)
    ago = torch.arange(3., -1, -1)[:, None, None]
    torch.testing.assert_close(new.sum(0), taps.sum(0))
    torch.testing.assert_close((new * 2 * ago).sum(0), (taps * ago).sum(0))
