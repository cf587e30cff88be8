"""A discriminator that tells the network's output from clean speech, for the network to be taken for it: spectrograms
of three resolutions as in UnivNet (Jang et al., Interspeech 2021, arXiv 2106.07889), least squares (Mao et al., ICCV
2017, arXiv 1611.04076), and the distance of the layers' maps, feature matching, as in HiFi-GAN (Kong, Kim and Bae,
NeurIPS 2020, arXiv 2010.05646).

Every process of a training has a discriminator of its own; a checkpoint has the first one's.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from torch.nn.utils.parametrizations import weight_norm

from training.loss.metric import Learner

WINDOWS = 1024, 512, 256                                # samples at 16 kHz; hops are a quarter of them
COMPRESS = .3
LEARNING_RATE = 2e-4
MATCHING = .4                                           # weight of a map's distance beside the score's


class Discriminator(nn.Module):
    """[N,T,F], compressed magnitudes -> the layers' maps, of which the last are the scores: 1 for clean speech."""

    def __init__(self, c=32):
        super().__init__()
        shapes = (1, c, 9, 1), (c, c, 9, 2), (c, c, 9, 2), (c, c, 9, 2), (c, c, 3, 1), (c, 1, 3, 1)
        self.layers = nn.ModuleList(weight_norm(nn.Conv2d(i, o, (3, size), (1, stride), (1, size // 2)))
                                    for i, o, size, stride in shapes)

    def forward(self, x):
        maps = [self.layers[0](x[:, None])]
        for layer in self.layers[1:]:
            maps[-1] = F.leaky_relu(maps[-1], .1)
            maps.append(layer(maps[-1]))
        return maps


class Critic(Learner):
    """critic(clean, y), [N,n] at 16 kHz -> [N]: how far y is from passing for clean; 0 before learning."""

    def __init__(self, device):
        nets = nn.ModuleList(Discriminator() for _ in WINDOWS).to(device, memory_format=torch.channels_last)
        super().__init__(nets, LEARNING_RATE, device)
        self.fixed = [{k: v.detach() for k, v in net.named_parameters()} for net in nets]
        self.windows = [torch.hann_window(n, device=device) for n in WINDOWS]

    def spectrograms(self, x):
        """[N,n] -> [N,T,F] for each resolution."""
        for window in self.windows:
            n = len(window)
            X = torch.stft(x, n, n // 4, window=window, center=False, return_complex=True).mT
            yield (X.real.square() + X.imag.square() + 1e-8).pow(COMPRESS / 2)

    def maps(self, x, run):
        """[N,n] -> maps for each resolution; run(i, spectrogram) is discriminator i."""
        spectrograms = list(self.spectrograms(x))
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            return [run(i, s) for i, s in enumerate(spectrograms)]

    def __call__(self, clean, y):
        fixed = lambda i, s: functional_call(self.net[i], self.fixed[i], s)
        with torch.no_grad():
            real = self.maps(clean, fixed)
        far = 0
        for of_clean, of_y in zip(real, self.maps(y, fixed)):
            far = far + (1 - of_y[-1].float()).square().mean((1, 2, 3))
            for a, b in zip(of_clean[:-1], of_y[:-1]):
                far = far + MATCHING * (a.float() - b.float()).abs().mean((1, 2, 3)) / a.float().abs().mean()
        return self.trust * far / len(WINDOWS)

    def learn(self, clean, y, rate=1.):
        """Takes one training step with these clips, at this share of the learning rate."""
        for group in self.opt.param_groups:
            group['lr'] = LEARNING_RATE * rate
        value = 0
        for *_, score in self.maps(torch.cat([clean, y]), lambda i, s: self.net[i](s)):
            of_clean, of_y = score.float().chunk(2)
            value = value + (1 - of_clean).square().mean() + of_y.square().mean()
        self.step(value)
