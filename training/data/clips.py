"""Noisy clips and their targets, made anew for every step from packed audio in the GPU's memory.

prepare.py writes the packs: speech_full.i16, voice_full.i16, noise.i16, events.i16 at 48 kHz, speech_wide.i16,
voice_wide.i16, noise_wide.i16 at 16 kHz, each with _coded.i16 beside it for what went through a codec at a low rate and
_starts.i64 for the first samples of recordings, and rooms_full.i16, rooms_wide.i16. Every clip is [batch, samples] at
48 kHz; an argument or result [batch, 1] is one number a clip.
"""
import copy
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from scipy.fft import next_fast_len

RATE, WIDE = 48000, 16000
ROOM = 24000                                            # samples of one room response
FASTEST = 1.18                                          # a voice's speed is between 1 / FASTEST and FASTEST
FASTEST_NOISE = 2.
STOCK = 4                                               # batches made at once: for few clips that takes no longer
ALONE, CLEAN = .1, .1                                   # shares of the clips: noise alone; speech to be left alone
SNR = (-8, 2.5), (2.5, 15), (15, 42)                    # dB, each for a third of the noise
WET = .6                                                # share of the clips in a room
SILENT = .08                                            # share of the clips that begin with digital silence
AFTER = .35                                             # share of the clips that follow the end of another one
CALLER = .12                                            # share of the clips in which a voice's band changes
FIRST = .4                                              # share of the speech that begins as its recording does
SUNG = .06                                              # share of the speech that is song or laughter, if there is any
WHISPERED = .04                                         # share of the speech
FAINT = .2, (-30, -8)                                   # share of the speech with a passage so many dB quieter
EVENTS = .3, (-32, 3)                                   # share of the clips with events; dB over the speech
TAUGHT = 2                                              # of so many clips one has a teacher, who takes time
CODED = .1                                              # share of the coded audio in what is drawn from a pack, at most
NARROW = .25                                            # share of recorded noise from noise_wide, if there is any
FULL_KNOWN, WIDE_KNOWN = 15500., 7800.                  # Hz up to which the packs' speech is a target


def rms(x):
    """[n,samples] -> [n,1]."""
    return x.square().mean(1, keepdim=True).sqrt()


def db(x):
    """dB -> factor of an amplitude."""
    return 10 ** (x / 20)


def lowpass(x, hz):
    """x [batch,samples], hz [batch,1]: low-pass with a raised-cosine edge, 400 Hz wide, that ends at hz."""
    f = torch.linspace(0, RATE / 2, x.shape[1] // 2 + 1, device=x.device)
    g = ((hz - f) / 400).clamp(0, 1)
    return torch.fft.irfft(torch.fft.rfft(x) * (.5 - .5 * torch.cos(math.pi * g)), n=x.shape[1])


def faster(x, factor, samples):
    """x [n,m] played `factor` [n,1] times as fast: `samples` of it, so m >= samples * factor. Pitch and formants move
    with it.

    Cubic interpolation of the signal at twice its rate: where there was nothing above 16 kHz what it adds is 40 dB
    down.
    """
    twice = torch.fft.irfft(torch.fft.rfft(x), n=2 * x.shape[1]) * 2
    at = torch.arange(samples, device=x.device) * factor.double() * 2
    i = at.long().clamp(1, twice.shape[1] - 3)
    t = (at - i).to(x.dtype)
    a, b, c, d = (twice.gather(1, i + k) for k in (-1, 0, 1, 2))
    return b + .5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


def at_16k(x):
    """[n,samples] at 48 kHz -> a third of the samples."""
    n = x.shape[1] // 6 * 6
    return torch.fft.irfft(torch.fft.rfft(x[:, :n])[:, :n // 6 + 1], n=n // 3) / 3


def spectrum(x, hop):
    """[n,samples] -> [n,T,513] in frames of 21 ms; sound() inverts it."""
    return torch.stft(x, 1024, hop, window=torch.hann_window(1024, device=x.device), return_complex=True).mT


def sound(X, hop, samples):
    """X [n,T,513] from spectrum() -> [n,samples]."""
    return torch.istft(X.mT, 1024, hop, window=torch.hann_window(1024, device=X.device), length=samples)


def convolve(x, h):
    """x [n,samples] through responses h [n,ROOM] -> [n,samples]."""
    n = x.shape[1] + ROOM
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(h, n), n)[:, :x.shape[1]]


def another(full, x):
    """For each row of x, another row of the same bandwidth; the first `full` rows are full band."""
    return torch.cat([x[:full].roll(1, 0), x[full:].roll(1, 0)])


class Pack:
    """Audio at `rate` in the GPU's memory; clips that went through a codec come last."""

    def __init__(self, folder, name, rate, device):
        paths = [os.path.join(folder, name + ending) for ending in ('.i16', '_coded.i16')]
        parts = [np.fromfile(p, np.int16) if os.path.exists(p) else np.zeros(0, np.int16) for p in paths]
        self.path, self.rate, self.first, coded = paths[0], rate, len(parts[0]), len(parts[1])
        self.coded = min(CODED, coded / max(1, self.first + coded)) if self.first else 1.
        self.audio = torch.from_numpy(np.concatenate(parts)).to(device)
        starts = os.path.join(folder, name + '_starts.i64')
        starts = np.fromfile(starts, np.int64) if os.path.exists(starts) else np.zeros(0, np.int64)
        self.starts = torch.from_numpy(starts).to(device)

    def crop(self, n, samples, rand, first=0.):
        """[n, samples] at 48 kHz; rand(n) draws; `first`: how many begin where a recording does."""
        ratio = RATE // self.rate
        m = samples if ratio == 1 else next_fast_len(math.ceil(samples / ratio), real=True)
        coded = rand(n) < self.coded
        low = torch.where(coded, self.first, 0)
        high = torch.where(coded, self.audio.numel(), self.first) - m
        i = low + (rand(n).double() * (high - low)).long()
        if first and len(self.starts):
            at = self.starts[(rand(n) * len(self.starts)).long()]
            i = torch.where((rand(n) < first) & ~coded, torch.minimum(at, high), i)
        x = self.audio[i[:, None] + torch.arange(m, device=i.device)].float() / 32768
        return x if ratio == 1 else torch.fft.irfft(torch.fft.rfft(x), n=m * ratio)[:, :samples] * ratio


class Mixer:
    """batch(n) -> noisy, target [n, samples], the frequency above which the target is not known [n,1], and the first
    sample that counts [n,1]; with a teacher also its output for every TAUGHT-th noisy one, zeros for song and laughter:
    it may take these for noise."""

    def __init__(self, folder, samples, device, seed, teacher=None):
        self.device, self.teacher = device, teacher
        self.gen = torch.Generator(device=device)
        self.gen.manual_seed(seed)
        packs = ('speech_full', RATE), ('speech_wide', WIDE), ('noise', RATE), ('noise_wide', WIDE), ('events', RATE)
        self.full, self.wide, self.noises, self.noises_wide, self.happened = (Pack(folder, *p, device) for p in packs)
        self.sung, self.sung_wide = (Pack(folder, *p, device) for p in (('voice_full', RATE), ('voice_wide', WIDE)))
        if not self.wide.audio.numel():
            self.wide = self.full
        rooms = [torch.from_numpy(np.fromfile(os.path.join(folder, f'rooms_{k}.i16'), np.int16)).to(device)
                 .view(-1, ROOM).float() for k in ('full', 'wide')]
        if not len(rooms[0]):                           # none was measured: one without walls
            rooms[0] = torch.eye(1, ROOM, device=device)
        self.responses = torch.cat(rooms)
        self.responses /= self.responses.abs().amax(1, keepdim=True)
        self.full_rooms = len(rooms[0])                 # the rest has nothing above 8 kHz: for wide speech only
        self.set_length(samples)

    def set_length(self, samples):
        """Sets the length of clips in samples."""
        self.samples, self.stock = samples, []
        for pack, speed in (self.full, FASTEST), (self.wide, FASTEST), (self.noises, FASTEST_NOISE):
            least = self.enough(speed) / RATE
            if pack.audio.numel() <= least * pack.rate:
                raise SystemExit(f'{pack.path}: clips of {samples / RATE:g} s need more than {least:.1f} s of sound')
        self.ramp = torch.arange(samples, device=self.device)
        f = torch.linspace(0, RATE / 2, samples // 2 + 1, device=self.device)
        at = torch.log(f.clamp_min(20) / 20) / math.log(1200) * 9
        self.eq_low = at.floor().clamp(0, 8).long()
        self.eq_part = at - self.eq_low

    def of_length(self, samples):
        """Returns the same source with clips of another length."""
        other = copy.copy(self)
        other.set_length(samples)
        return other

    def rand(self, *shape):
        """Uniform in 0 to 1, from the mixer's generator."""
        return torch.rand(*shape, device=self.device, generator=self.gen)

    def randn(self, *shape):
        """Normal, of variance 1, from the mixer's generator."""
        return torch.randn(*shape, device=self.device, generator=self.gen)

    def between(self, n, low, high):
        """[n,1], uniform in low to high."""
        return low + (high - low) * self.rand(n, 1)

    def chance(self, n, p):
        """[n,1], 1 with probability p, else 0."""
        return (self.rand(n, 1) < p).float()

    def sometimes(self, p, change, x):
        """x [n,samples] with a share p of its rows, drawn anew, replaced by change(rows). change() sees hardly more
        rows than that."""
        some = torch.randperm(len(x), generator=self.gen, device=self.device)[:math.ceil(p * len(x))]
        chosen = self.chance(len(some), p * len(x) / len(some)) > 0
        return x.index_copy(0, some, torch.where(chosen, change(x[some]), x[some]))

    def enough(self, speed):
        """The samples needed for a clip at this speed; a length with a fast transform."""
        return next_fast_len(math.ceil(self.samples * speed) + 4)

    def crop(self, pack, n, samples=None, first=0.):
        """[n,samples] from anywhere in a pack; a clip's length if `samples` is not given."""
        return pack.crop(n, samples or self.samples, self.rand, first)

    def equalise(self, x, strength=8., p=.5):
        """Random smooth response through ten points evenly spaced in log frequency, 20 Hz to 24 kHz; strength in dB."""
        n = x.shape[0]
        points = self.between(n * 10, -strength, strength).view(n, 10) * self.chance(n, p)
        gain = points[:, self.eq_low] * (1 - self.eq_part) + points[:, self.eq_low + 1] * self.eq_part
        return torch.fft.irfft(torch.fft.rfft(x) * db(gain), n=self.samples)

    def microphone(self, x):
        """Brightens most voices by up to 12 dB, growing from 1.5 to 8 kHz, since codecs at low rates darken them; gives
        some a high-pass at 60 to 200 Hz, as some microphones have."""
        f = torch.linspace(0, RATE / 2, x.shape[1] // 2 + 1, device=self.device)
        bright = self.between(len(x), 0, 12) * self.chance(len(x), .7) * ((f - 1500) / 6500).clamp(0, 1)
        low = self.between(len(x), 60, 200) * self.chance(len(x), .3)
        return torch.fft.irfft(torch.fft.rfft(x) * db(bright) / (1 + (low / f.clamp_min(1)) ** 4).sqrt(), n=x.shape[1])

    def narrower(self, x):
        """The band of a telephone or a speech codec; half of them remove the bass, too."""
        n = len(x)
        bass = lowpass(x, self.between(n, 300, 600)) * self.chance(n, .5)
        return lowpass(x - bass, self.between(n, 3400, 8000))

    def caller(self, both):
        """both [n,2*samples]: a voice, then noise -> the same, the voice narrower until, or from, some moment, half of
        the noises narrower all the time: recorded calls have such, and a network that has heard the wider voice would
        take the other for one behind it."""
        s, v = both.chunk(2, 1)
        n = len(s)
        later = self.edge(self.between(n, 0, self.samples / RATE), .01)
        s = torch.lerp(s, self.narrower(s), (later - self.chance(n, .5)).abs())
        narrow = self.narrower(v)
        narrow = narrow * rms(v) / (rms(narrow) + 1e-6)
        return torch.cat([s, torch.where(self.chance(n, .5) > 0, narrow, v)], 1)

    def rooms(self, full, n):
        """-> whole response, and its direct and early (30 ms) part; of the first `full` rows full band, those not WET
        dry."""
        t = torch.arange(ROOM, device=self.device) / RATE
        h = self.randn(n, ROOM) * torch.exp(-6.9 * t / self.between(n, .1, .8)) * (t > .0015)
        h = h / h.norm(dim=1, keepdim=True) * db(self.between(n, -15, 3))
        h[:, 0] = 1
        last = torch.where(torch.arange(n, device=self.device) < full, self.full_rooms, len(self.responses))
        h = torch.where(self.chance(n, .5) > 0, self.responses[(self.rand(n) * last).long()], h)
        dry = torch.zeros_like(h)
        dry[:, 0] = 1
        h = torch.where(self.chance(n, WET) > 0, h, dry)
        return h, h * (t < .03)

    def above(self, n, low, high):
        """[n,1,513]: mask of the bins above a frequency drawn between two."""
        return torch.arange(513, device=self.device) * RATE / 1024 >= self.between(n, low, high)[..., None]

    def coded(self, x):
        """What a codec that quantises spectra coarsely (Vorbis, MP3, AAC, Bluetooth's) leaves: holes between the strong
        bins. Much of the packs' noise has such holes; their speech, from a codec of another kind, has none: a network
        would take holes for noise."""
        X = spectrum(x, 512)
        around = F.avg_pool1d(X.abs().square(), 17, 1, 8, count_include_pad=False)
        step = (around / 2).sqrt() * self.between(len(x), .5, 3)[..., None] + 1e-9
        Y = torch.complex((X.real / step).round() * step, (X.imag / step).round() * step)
        return sound(torch.where(self.above(len(x), 1500, 5000), Y, X), 512, x.shape[1])

    def regrained(self, x):
        """Fills the holes that a codec left above some frequency with noise of the same spectrum."""
        X = spectrum(x, 256)
        around = F.avg_pool2d(X.abs().square()[:, None], (3, 9), 1, (1, 4), count_include_pad=False)[:, 0].sqrt()
        grain = spectrum(self.randn(*x.shape), 256)
        Y = around * grain / grain.abs().square().mean().sqrt()
        return sound(torch.where(self.above(len(x), 500, 6000), Y, X), 256, x.shape[1])

    def edge(self, start, seconds):
        """0 before `start`, 1 after it, a slope of the given length between; [n,1] -> [n,samples]."""
        return ((self.ramp / RATE - start) / seconds).clamp(0, 1)

    def within(self, start, stop):
        """1 from `start` to `stop`, 0 elsewhere, with slopes of 10 ms; [n,1] -> [n,samples]."""
        return self.edge(start, .01) * (1 - self.edge(stop, .01))

    def pauses(self, s):
        """In every three seconds pauses of 0.3 to 2 s, a third of them before its first word, and of 0.15 to 0.6 s; in
        long clips of 4 to 12 s as well."""
        n, length = s.shape[0], self.samples / RATE
        kinds = (.6, .3, 2.), (.3, .15, .6), (.1 if length > 15 else 0, 4., 12.)
        for first in range(0, max(1, int(length)), 3):
            for p, low, high in kinds:
                latest = max(first, min(first + 3, length - low))
                start = torch.where(self.rand(n, 1) < .33, first - .01, self.between(n, first, latest))
                stop = start + .01 + self.between(n, low, high)
                s = s * (1 - self.within(start, stop) * self.chance(n, p))
        return s

    def bright_starts(self, s):
        """Silence before a bright sound (S, F, Sh), for 0.3 to 2 s or, in half of the rows, from the start on. First
        words rarely begin with one, so the network would take it for noise."""
        e = s[:, :self.samples // 480 * 480].reshape(len(s), -1, 480)
        e = torch.fft.rfft(e).abs().square()
        bright, e = e[..., 30:].sum(2), e.sum(2)        # above 3 kHz, and in all
        bright = (bright > .5 * e) & (e > .03 * e.mean(1, keepdim=True))
        bright[:, -50:] = False                         # half a second of the word comes after it
        begins = bright & ~F.pad(bright, (1, 0))[:, :-1]
        some, at = (self.rand(*begins.shape) * begins).max(1, keepdim=True)
        stop = at / 100
        start = stop - torch.where(self.rand(len(s), 1) < .5, self.samples / RATE, self.between(len(s), .3, 2))
        return torch.where(some > 0, s * (1 - self.within(start, stop - .005)), s)

    def jump(self, n, p, most):
        """A level that changes once, by up to +-`most` dB, in a share p of the rows."""
        step = self.between(n, -most, most) * self.chance(n, p)
        return db(step * self.edge(self.between(n, 0, self.samples / RATE), .03))

    def babble(self, n):
        """Three to twelve voices, each three at one place in a measured room."""
        total = 0
        for i in range(4):
            v = sum(self.crop(self.full if k % 2 else self.wide, n) * db(self.between(n, 0, 10))
                    for k in range(i, i + 3))
            h = self.responses[(self.rand(n) * self.full_rooms).long()]
            total = total + convolve(v, h / h.norm(dim=1, keepdim=True)) * (self.chance(n, .6) if i else 1)
        return total

    def steady(self, n):
        """Air and fans: noise of a random colour that swells slowly, sometimes with mains hum or the tones of a
        rotor."""
        t = self.ramp / RATE
        wave = lambda hz: torch.sin(2 * math.pi * hz * t + self.rand(n, 1) * 6.28)
        v = self.equalise(self.randn(n, self.samples), 20., 1.) * (1 + .7 * wave(self.between(n, .1, 3.1)))
        mains = torch.where(self.rand(n, 1) < .5, 50., 60.)
        f0 = torch.where(self.rand(n, 1) < .5, mains, self.between(n, 60, 500))
        tones = sum(wave(f0 * k) * self.rand(n, 1) for k in (1, 2, 3, 4, 5, 7))
        return v / rms(v) + tones / rms(tones) * self.chance(n, .3) * 2

    def clicks(self, n):
        """Keys and knocks: sparse short decaying bursts."""
        t = torch.arange(ROOM, device=self.device) / RATE
        burst = self.equalise_room(self.randn(n, ROOM) * torch.exp(-t / self.between(n, .002, .022)))
        return convolve((self.rand(n, self.samples) < 8. / RATE).float() * (.3 + self.rand(n, self.samples)), burst)

    def equalise_room(self, h):
        """A random tilt, so that bursts are not all white: one pole, half of them low-passed."""
        return self.sometimes(.5, lambda h: F.avg_pool1d(h[:, None], 9, 1, 4)[:, 0], h)

    def recording(self, n):
        """Recorded noise, varied so that the network cannot learn it by heart: at another speed, backwards, as steady
        hiss of its long-term spectrum, without a codec's traces, in a room, through another response."""
        speed = torch.where(self.rand(n, 1) < .6, FASTEST_NOISE ** self.between(n, -1, 1), 1.)
        most = self.enough(FASTEST_NOISE)
        x = self.crop(self.noises, n, most)
        if self.noises_wide.audio.numel():
            x = self.sometimes(NARROW, lambda x: self.crop(self.noises_wide, len(x), most), x)
        x = faster(x, speed, self.samples)
        x = self.sometimes(.25, lambda x: x.flip(1), x)
        x = self.sometimes(.15, self.scattered, x)
        x = self.sometimes(.3, self.regrained, x)
        x = self.sometimes(.3, lambda x: convolve(x, self.rooms(len(x), len(x))[0]), x)
        return self.equalise(x, 12.)

    def scattered(self, x):
        """Random phases for its whole spectrum: spreads events over the clip, keeps tones and colour."""
        X = torch.fft.rfft(x)
        turn = self.rand(*X.shape) * 2 * math.pi
        return torch.fft.irfft(X * torch.polar(torch.ones_like(turn), turn), n=x.shape[1])

    def thuds(self, n):
        """Bumps of a desk, steps, doors, wind: sparse low resonances or, in half of the rows, bursts of low noise, 20
        to 200 ms long."""
        t = torch.arange(ROOM, device=self.device) / RATE
        burst = lowpass(self.randn(n, ROOM), self.between(n, 150, 800)) * torch.exp(-t / (.01 * 7 ** self.rand(n, 1)))
        modes = 0
        for i in range(3):
            hz = 40 * 8 ** self.rand(n, 1)
            carrier = torch.sin(2 * math.pi * hz * t + 3 * self.rand(n, 1) * torch.exp(-t / .02))
            modes = modes + carrier * torch.exp(-t / (.01 * 10 ** self.rand(n, 1))) * self.rand(n, 1)
        modes = torch.where(self.chance(n, .5) > 0, burst, modes) * (t / self.between(n, .001, .01)).clamp_max(1)
        often = self.between(n, .5, 4) / RATE
        return convolve((self.rand(n, self.samples) < often).float() * (.2 + self.rand(n, self.samples)), modes)

    def rustle(self, n):
        """Paper and clothes: hiss in strokes of 20 to 300 ms, of which many follow each other."""
        v = self.randn(n, self.samples)
        v = v - lowpass(v, self.between(n, 800, 4000))
        strokes = self.randn(n, 1, math.ceil(self.samples / RATE * 20)).abs() ** 3
        strokes = F.interpolate(strokes, size=self.samples, mode='linear')[:, 0]
        return self.equalise(v * strokes)

    def events(self, n):
        """What happens beside a voice: keys, a mouse, knocks, dishes, doors, paper, for up to three stretches of 0.1 to
        2 s. 1 is the level of their loudest 20 ms, so that they can be set beside a voice's."""
        x = self.clicks(n)
        x = self.sometimes(.2, lambda x: self.thuds(len(x)), x)
        x = self.sometimes(.2, lambda x: self.rustle(len(x)), x)
        if self.happened.audio.numel() > self.samples:
            x = self.sometimes(.7, lambda x: self.equalise(self.crop(self.happened, len(x))), x)
        x = self.sometimes(.5, lambda x: convolve(x, self.rooms(len(x), len(x))[0]), x)
        there = 0
        for often in 1, .5, .5:
            start = self.between(n, -.1, self.samples / RATE)
            there = there + self.within(start, start + self.between(n, .1, 2)) * self.chance(n, often)
        x = x * there.clamp_max(1)
        e = x[:, :self.samples // 960 * 960].reshape(n, -1, 960).square().mean(2)
        return x / (e.amax(1, keepdim=True).sqrt() + 1e-4)

    def noise(self, n):
        """-> noise [n,samples], of one kind in half of the clips, of any number of kinds in the others; and which clips
        have babble [n,1]."""
        parts = self.recording, self.recording, self.babble, self.steady, self.clicks, self.thuds
        shares = .75, .3, .25, .4, .15, .15
        often = torch.tensor(shares, device=self.device)
        one = F.one_hot(torch.multinomial(often.expand(n, -1), 1, generator=self.gen)[:, 0], len(parts))
        chosen = torch.where(self.rand(n, 1) < .5, one, (self.rand(n, len(parts)) < often).long())
        v = torch.zeros(n, self.samples, device=self.device)
        for i, (part, share) in enumerate(zip(parts, shares)):
            expected = n * (share + share / sum(shares)) / 2
            most = min(n, math.ceil(expected + 3 * expected ** .5))    # known to the host; too few for one in 1000
            rows = chosen[:, i].argsort(descending=True)[:most]
            x = part(most)
            v.index_add_(0, rows, x / (rms(x) + 1e-4) * db(self.between(most, -6, 6)) * chosen[rows, i:i + 1])
        return v * self.jump(n, .2, 15) + self.randn(n, self.samples) * 1e-3, chosen[:, 2:3]

    def snr(self, n, babble):
        """dB; babble is no louder than speech."""
        third = torch.randint(len(SNR), (n,), device=self.device, generator=self.gen)
        low, high = torch.tensor(SNR, device=self.device)[third].T[..., None]
        low = torch.maximum(low, low * (1 - babble))
        return low + (high - low) * self.rand(n, 1)

    def background(self, n, clean):
        """Noise [n,samples] at its level below speech of 0 dB. Babble is no louder than speech: among equal voices
        nobody knows which one is wanted. In long clips noise and level change every few seconds, so that the network's
        state does not settle on one."""
        scenes = max(1, round(self.samples / RATE / 6))
        total, past = 0, 1
        for i in range(scenes):
            v, babble = self.noise(n)
            v = v / (rms(v) + 1e-6) * db(-torch.where(clean, self.between(n, 50, 80), self.snr(n, babble)))
            until = self.edge(self.between(n, i + .5, i + 1.5) * self.samples / RATE / scenes,
                              .05) if i + 1 < scenes else 0
            total, past = total + v * past * (1 - until), until
        share, (low, high) = EVENTS
        happens = lambda v: v + self.events(len(v)) * db(self.between(len(v), low, high))
        return torch.where(clean, total, self.sometimes(share, happens, total))

    def whispered(self, s):
        """Noise of a voice's spectrum, without its lowest tones."""
        X = spectrum(s, 256)
        around = F.avg_pool2d(X.abs().square()[:, None], (1, 9), 1, (0, 4), count_include_pad=False)[:, 0].sqrt()
        grain = spectrum(self.randn(*s.shape), 256)
        high = self.above(len(s), 300, 800).float() * .9 + .1
        y = sound(around * high * grain / grain.abs().square().mean().sqrt(), 256, s.shape[1])
        return y * (rms(s) / (rms(y) + 1e-6))

    def fainter(self, s):
        """Attenuates one passage of half a second to two: faint sound is not noise."""
        n = len(s)
        start = self.between(n, -.5, self.samples / RATE)
        return s * db(self.between(n, *FAINT[1]) * self.within(start, start + self.between(n, .5, 2)))

    def voices(self, speech, sung, n):
        """-> [n,enough(FASTEST)] from the pack `speech`, a share SUNG of the rows from the pack `sung` if that is long
        enough; and which these are [n,1]."""
        most = self.enough(FASTEST)
        x = F.pad(self.crop(speech, n, most, FIRST), (0, 1))
        if n and sung.audio.numel() * RATE > most * sung.rate:
            x = self.sometimes(SUNG, lambda x: F.pad(self.crop(sung, len(x), most, FIRST), (0, 1), value=1.), x)
        return x[:, :-1], x[:, -1:]

    def speech(self, full, n, speed):
        """-> [n,samples], the first `full` rows full band, and where somebody sings or laughs [n,1]. speed [n,1] varies
        the packs' voices."""
        s, sung = (torch.cat(x) for x in zip(self.voices(self.full, self.sung, full),
                                             self.voices(self.wide, self.sung_wide, n - full)))
        s = self.sometimes(.35, self.coded, self.microphone(faster(s, speed, self.samples)))
        s = self.sometimes(FAINT[0], self.fainter, self.sometimes(WHISPERED, self.whispered, s))
        second = db(self.between(n, -10, 0)) * self.chance(n, .08)
        sung = torch.maximum(sung, another(full, sung) * (second > 0))
        s = self.pauses(self.equalise(s + another(full, s) * second))
        return self.sometimes(.15, self.bright_starts, s), sung

    def after(self, full, x):
        """-> x, in a share of the rows after the beginning of another row, and where that ends [n,1], 0 elsewhere. In a
        stream speech follows other speech, noise and levels."""
        n = len(x)
        start = (self.between(n, .15, .5) * self.samples).floor() * self.chance(n, AFTER)
        return torch.where(self.ramp < start, another(full, x), x), start

    def band(self, full, n):
        """Where the microphone's band ends [n,1]: telephones, 16 kHz headsets (half of the wide speech), codecs, or
        nowhere.

        Speech and noise end together. Were it the speech alone, its noise could be told by what lies above 8 kHz.
        """
        kind = self.rand(n, 1)
        wide = (torch.arange(n, device=self.device) >= full)[:, None]
        cut = torch.full((n, 1), RATE / 2, device=self.device)
        for below, low, high in (.45, 9000, 20000), (.35, 7000, 8400), (.1, 3400, 7000):
            cut = torch.where(kind < below, self.between(n, low, high), cut)
        return torch.where(wide & (kind > .7), self.between(n, 7600, 8400), cut)

    def batch(self, n):
        """n clips, as described at the class. Makes STOCK batches at once."""
        if not self.stock or len(self.stock[0][0]) != n:
            *made, sung = self.make(n * STOCK)
            self.stock = [[x[i::STOCK].contiguous() for x in made] for i in range(STOCK)]
            if self.teacher:
                taught = self.teacher(torch.cat([clips[0][::TAUGHT] for clips in self.stock])).chunk(STOCK)
                self.stock = [[*clips, x * (1 - sung[i::STOCK][::TAUGHT])]
                              for i, (clips, x) in enumerate(zip(self.stock, taught))]
        return self.stock.pop()

    def make(self, n):
        """n clips, and which of them are song or laughter [n,1]; the first half is full band."""
        full = n // 2
        role = self.rand(n, 1)
        alone, clean = role < ALONE, role > 1 - CLEAN
        speed = torch.where(self.rand(n, 1) < .5, self.between(n, 1 / FASTEST, FASTEST), 1.)
        s, sung = self.speech(full, n, speed)
        s = s * ~alone
        known = torch.full((n, 1), WIDE_KNOWN, device=self.device)
        known[:full] = FULL_KNOWN
        known = known * speed
        s, v = self.sometimes(CALLER, self.caller, torch.cat([s, self.background(n, clean)], 1)).chunk(2, 1)
        h, early = self.rooms(full, n)
        s, target = convolve(s, torch.where(clean, early, h)), convolve(s, early)
        e = s[:, :self.samples // 960 * 960].reshape(n, -1, 960).square().mean(2)
        loud = e > .01 * e.amax(1, keepdim=True)
        active = ((e * loud).sum(1, keepdim=True) / loud.sum(1, keepdim=True).clamp_min(1)).sqrt()
        v = v * active.clamp_min(1e-2)
        cut = self.band(full, n)
        m = self.sometimes(.1, self.coded, lowpass(s + v, cut))    # by a headset's radio link
        target = lowpass(target, cut)
        known = torch.where(cut < known + 1000, RATE / 2, known)    # all of it: there is nothing above the edge
        gain = self.jump(n, min(1., .033 * self.samples / RATE), 12)
        m, target = m * gain, target * gain
        begins = torch.where(self.rand(n, 1) < SILENT, self.edge(self.between(n, .1, 1.5), .001), 1.)
        m, target = m * begins, target * begins
        volume = db(self.between(n, -50, -6)) / (rms(m) + 1e-5)
        volume = torch.minimum(volume, .99 / (m.abs().amax(1, keepdim=True) + 1e-5))
        m, target = m * volume, target * volume
        top = m.abs().amax(1, keepdim=True) * torch.where(self.rand(n, 1) < .05, self.between(n, .2, .9), 1.)
        m = torch.maximum(torch.minimum(m, top), -top)  # an overdriven input
        m, start = self.after(full, m)
        return torch.nan_to_num(m), torch.nan_to_num(target), known, start, sung
