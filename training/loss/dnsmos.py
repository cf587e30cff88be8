"""DNSMOS P.835 as a network whose gradient is known (Reddy, Gopal and Cutler, ICASSP 2022, arXiv 2110.01763): the model
file of the package speechmos (PyPI, its weights MIT), read with the package onnx. evaluate.py runs it unchanged."""
import importlib.util
import pathlib

import torch
import torch.nn.functional as F

from training.data.clips import at_16k

HOP = 160                                               # samples at 16 kHz
CURVES = ((-.08397278, 1.22083953, .0052439), (-.13166888, 1.60915514, -.39604546), (-.06766283, 1.11546468, .04602535))


def read_weights():
    """{name in the file: tensor}."""
    import onnx
    package = pathlib.Path(importlib.util.find_spec('speechmos').origin).parent
    graph = onnx.load(package / 'dnsmos_models' / 'sig_bak_ovr.onnx').graph
    return {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in graph.initializer}


class Dnsmos:
    """mos(x [B,n] at 48 kHz) -> [B,3]: speech, background and overall quality, 1 to 5. The measure was made for 9 s;
    any length of .2 s and more has a value."""

    def __init__(self, device):
        w = {k: v.to(device) for k, v in read_weights().items()}
        self.transform = torch.cat([w[f'time2freq/stft-{part}/kernel:0'] for part in ('real', 'imag')]).mT
        self.convolutions = [(w[f'conv2d{i}/kernel:0'], w[f'conv2d{i}/bias:0'])
                             for i in ('', *(f'_{k}' for k in range(1, 7)))]
        dense = 'mos_estimator_logpow/dense{}/{}/ReadVariableOp/resource:0'
        self.layers = [(w[dense.format(i, 'MatMul')].T, w[dense.format(i, 'BiasAdd')]) for i in ('', '_1', '_3')]
        self.curves = torch.tensor(CURVES, device=device).T

    def __call__(self, x):
        real, imag = F.conv1d(at_16k(x)[:, None], self.transform, stride=HOP).chunk(2, 1)
        y = (real.square() + imag.square()).clamp_min(1e-12).log10().mT[:, None]
        for i, (weight, bias) in enumerate(self.convolutions):
            y = F.conv2d(y, weight, bias, padding=1).relu()
            if i in (3, 4, 5):
                y = F.max_pool2d(y, 2)
        y = y.amax((2, 3))
        for weight, bias in self.layers[:-1]:
            y = F.linear(y, weight, bias).relu()
        raw = F.linear(y, *self.layers[-1])
        return (self.curves[0] * raw + self.curves[1]) * raw + self.curves[2]
