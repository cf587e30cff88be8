"""Resemblyzer's encoder (Apache-2.0; after Wan et al., arXiv 1710.10467), with pretrained.pt of its wheel."""
import librosa
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from training.voiceprint.network import HOP, RATE, WINDOW

SPAN, BANDS, CHANNELS, SIZE = 160, 40, 256, 256         # frames of a window, mel bands
COVERED = .75                                           # of the last window, at least
LEVEL = 10 ** (-30 / 20)                                # RMS, at least


class Teacher(nn.Module):
    def __init__(self, path):
        super().__init__()
        self.lstm = nn.LSTM(BANDS, CHANNELS, 3, batch_first=True)
        self.linear = nn.Linear(CHANNELS, SIZE)
        state = torch.load(path, map_location='cpu')['model_state']
        self.load_state_dict({k: v for k, v in state.items() if not k.startswith('similarity')})
        self.register_buffer('bands', torch.from_numpy(librosa.filters.mel(sr=RATE, n_fft=WINDOW, n_mels=BANDS)))
        self.register_buffer('window', torch.hann_window(WINDOW))
        self.eval()

    def mel(self, x):
        """[samples] -> [frames, bands]"""
        power = torch.stft(x, WINDOW, HOP, window=self.window, pad_mode='constant', return_complex=True).abs().square()
        return (self.bands @ power).t()

    def windows(self, x, rate=1.3):
        """[samples] numpy -> [n, SPAN, BANDS], about `rate` a second"""
        x = x * max(1, LEVEL / (np.sqrt((x ** 2).mean()) + 1e-9))
        step = round(RATE / rate / HOP)
        frames = -(-(len(x) + 1) // HOP)
        starts = list(range(0, max(1, frames - SPAN + step + 1), step))
        if len(starts) > 1 and (len(x) / HOP - starts[-1]) / SPAN < COVERED:
            starts.pop()
        x = np.pad(x, (0, max(0, (starts[-1] + SPAN) * HOP - len(x))))
        m = self.mel(torch.from_numpy(x.astype(np.float32)))
        return torch.stack([m[s:s + SPAN] for s in starts])

    @torch.no_grad()
    def forward(self, windows):
        """[n, SPAN, BANDS] -> [n, SIZE], of unit length, none negative"""
        return F.normalize(F.relu(self.linear(self.lstm(windows)[1][0][-1])), dim=1)

    def print_of(self, x, rate=1.3):
        """[samples] numpy or tensor -> [SIZE]"""
        return F.normalize(self(self.windows(np.asarray(x), rate)).mean(0), dim=0)
