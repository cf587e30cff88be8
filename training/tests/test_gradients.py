import pytest
import torch

from training.gradients import cosines, pulls


class Terms:
    """Of a network of one weight [2]: pulls right, up and left, and nowhere."""
    weights = dict(right=2., up=1., left=.5, off=0.)

    def __init__(self, net):
        self.net = net

    def __call__(self, clip):
        x, y = self.net.weight[0] * clip
        return None, dict(right=x, up=y, left=-x, off=x)


def test_pulls_have_weights_and_angles():
    net = torch.nn.Linear(2, 1, bias=False)
    values, gradients = pulls(net, Terms(net), (torch.tensor([3., 4.]),))
    assert values.keys() == gradients.keys() == {'right', 'up', 'left'}
    assert values['left'] == -values['right']
    assert [g.tolist() for g in gradients.values()] == [[6, 0], [0, 4], [-1.5, 0]]
    wanted = torch.tensor([[1, 0, -1, 4.5], [0, 1, 0, 4], [-1, 0, 1, -4.5]])
    wanted[:, 3] /= (4.5 ** 2 + 4 ** 2) ** .5
    assert torch.allclose(cosines(gradients), wanted) and cosines(gradients)[0, 2].item() == pytest.approx(-1)
