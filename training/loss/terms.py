"""What training minimises. Terms and why their weights are as they are: docs/training.md."""
import torch
import torch.nn.functional as F
from scipy.fft import prev_fast_len

from training.data.clips import RATE, TAUGHT, at_16k, lowpass, rms

DEEP = 38                                               # dB: less than this in pauses is not worth more
FIRST = 3.                                              # weight of the first second that counts; 1 of all others
USUAL = .065                                            # mean squared compressed magnitude of a noisy clip of training


def mean(x, counts):
    """[B,T] -> [B,1]: over the frames that count."""
    return (x * counts).sum(1, keepdim=True) / counts.sum(1, keepdim=True)


def phases(loss):
    """A configuration's [loss], {term: [weight in the stable phase, in the decay]} -> both phases' {term: weight}"""
    return [{k: w[i] for k, w in loss.items()} for i in range(2)]


class Loss:
    """loss(noisy, clean, known, start) -> total, {term: value before its weight, 0 where that is 0}. known [B,1]: Hz
    above which clean says nothing; start [B,1]: the first sample that counts; taught: the teacher's output for
    noisy[::TAUGHT]. metric, critic: of metric.py, critic.py, for clips that they are to judge; `judged`, `told` are
    what they learn from."""

    def __init__(self, net, samples, device, weights, metric=None, critic=None):
        self.net, self.weights, self.metric, self.critic = net, weights, metric, critic
        self.end = 6 * prev_fast_len((samples - net.window) // 6)    # without the last frames, which lack overlap
        self.sample = torch.arange(self.end, device=device)
        self.bin_hz = torch.arange(net.window // 2 + 1, device=device) * RATE / net.window
        self.hz = net.positions_hz().to(device)
        self.n_wide = int((self.hz < 8000).sum())       # what a file of 16 kHz can have
        group = torch.where(self.hz < 8000, self.hz / 8000 * 9, 9 + (self.hz - 8000) / 16001 * 3).long()
        self.group = F.one_hot(group).float()
        self.group /= self.group.sum(0)                 # power of a group of positions is the mean of theirs
        self.recent, self.second = round(.1 * RATE / net.hop), round(RATE / net.hop)    # frames in 100 ms, in 1 s
        if weights['pesq']:
            from training.loss.perceptual import Pesq
            self.perceptual = Pesq(RATE, self.end, device)
        if weights['mos']:
            from training.loss.dnsmos import Dnsmos
            self.opinion = Dnsmos(device)
        self.hiss = torch.randn(self.end, generator=torch.Generator().manual_seed(0)).to(device) * 10 ** (-45 / 20)

    def silent_and_faint(self, power_clean, usual_noisy, counts):
        """Frames [B,T] without speech, and those with speech that is easily lost: less than 100 ms after one of the
        former, in the first second, or 20 to 50 dB under the loudest."""
        e = power_clean.mean(-1)
        usual = mean(e, counts)
        silent = (e < 3e-5 * (usual + .01 * usual_noisy)) & (counts > 0)    # a breath is not silence
        after = F.max_pool1d(F.pad(silent.float(), (self.recent, 0)), self.recent + 1, 1)[:, :silent.shape[1]] > 0
        begins = (after | (counts.cumsum(1) <= self.second)) & (e > 3e-3 * usual)
        part = e / (e.amax(1, keepdim=True) + 1e-20)
        return silent, (begins | (part > 1e-5) & (part < 1e-2)) & ~silent & (counts > 0)

    def silence(self, power_out, power_noisy, usual_noisy, silent):
        """Decibels left over -DEEP in frames without speech, as a part of DEEP; 55 dB under the clip's level [B,1]
        nothing is heard. Their mean over frames and groups, and that of the energy in each second, which is what is
        loudest there."""
        least = usual_noisy[..., None] * 10 ** -5.5 + 1e-12

        def left(out, noisy, where):
            over = (10 * torch.log10((out + least) / (noisy + least)) + DEEP).clamp_min(0) / DEEP
            heard = where * (noisy > least)
            return (over * heard).sum() / heard.sum().clamp_min(1)

        second = torch.arange(silent.shape[1], device=silent.device) // self.second
        seconds = (second[:, None] == second[::self.second]).float()
        counts = silent.float() @ seconds
        energy = lambda p: ((p.mean(2) * silent) @ seconds / counts.clamp_min(1))[..., None]
        return left(power_out, power_noisy, silent[..., None]), left(energy(power_out), energy(power_noisy),
                                                                     counts[..., None] > 0)

    def cut(self, C, Y, known, faint):
        """How much of the speech C is missing in Y in the frames `faint`: 0 if nothing is, 1.8 if all is. Noise does not
        count as speech. The less comes through, the more a little of it is worth."""
        w = (self.bin_hz < known).float()[:, None]
        passed = ((Y * C.conj()).real * w).sum(2) / ((C.abs().square() * w).sum(2) + 1e-9)
        return -(((passed.clamp(0, 1) + .2) / 1.2).log() * faint).sum() / faint.sum().clamp_min(1)

    def inconsistency(self, mh, ph, y, w):
        """How far the network's spectrum is from the spectrum of its output, in frames that overlap completely."""
        m, p = self.net.features(self.net.stft(y))
        L, whole = self.net.linear, -(self.net.synthesis // self.net.hop - 1)
        return ((mh[..., :L] * ph - m[..., :L] * p).abs().square() * w)[:, :whole].mean()

    def spoken(self, silent, clean, y):
        """y [B,n], replaced by the clean clip in pauses: PESQ rates speech, other terms rate pauses."""
        r = self.net.synthesis // self.net.hop          # frames that a sample of the output lies in
        heard = F.max_pool1d(F.pad((~silent).float()[:, None], (0, r - 1)), r, 1)
        heard = F.interpolate(heard, scale_factor=float(self.net.hop), mode='linear')[:, 0, :self.end]
        return clean + (y - clean) * heard

    def disliked(self, clean, y):
        """[B]: how far the discriminator's score is below the best."""
        if self.metric is None:
            return torch.zeros_like(clean[:, 0])
        maps = [self.net.features(self.net.stft(x))[0][..., :self.n_wide] for x in (clean, y)]
        maps = torch.stack([m / (m.square().mean((1, 2), keepdim=True).sqrt() + 1e-3) for m in maps], 1)
        self.judged = [x.detach() for x in (at_16k(clean), at_16k(y), maps)]
        return self.metric(maps)

    def unlike(self, clean, y):
        """[B]: how far the output is from being taken for clean speech. It costs much, so every second clip speaks for
        two. The noise 45 dB below both hides which one is a recording."""
        if self.critic is None:
            return torch.zeros_like(clean[:, 0])
        level = rms(clean[::2])
        some = [at_16k(torch.where(level > 1e-3, x[::2] / (level + 1e-3), 0) + self.hiss) for x in (clean, y)]
        self.told = [x.detach() for x in some]
        return self.critic(*some).repeat_interleave(2)[:len(clean)]

    def worse(self, clean, y):
        """[B]: how far DNSMOS of y is below that of the clean clip. Noise 45 dB below both keeps the gradient to what
        can be heard: it would be largest where there is next to nothing."""
        noise = self.hiss * rms(clean)
        with torch.no_grad():
            owed = self.opinion(clean + noise)
        return (owed - self.opinion(y + noise)).clamp_min(0).mean(1)

    def unlike_teacher(self, mh, ph, mc, mn, taught, w):
        """Distance from the teacher's spectrum in frames in which it is nearer to clean speech than the noisy clip and
        the network's output: it also cuts faint speech, and changes what is clean. Zeros teach nothing."""
        mh, ph, mc, mn, w = (x[::TAUGHT] for x in (mh, ph, mc, mn, w))
        w = w * (taught.abs().amax(1) > 0)[:, None, None]
        mt, pt = self.net.features(self.net.stft(taught))
        far = lambda m: ((m - mc).square() * w).sum(2, keepdim=True)
        w = w * (far(mt) < torch.minimum(far(mn), far(mh.detach())))
        L = self.net.linear
        whole = (mh[..., :L] * ph - mt[..., :L] * pt).abs().square() * w[..., :L]
        return ((mh - mt).square() * w).mean() + whole.mean() / 3    # as `magnitude` and `complex` stand to each other

    def __call__(self, noisy, clean, known, start, taught=None):
        net, terms = self.net, {}
        with torch.autocast(noisy.device.type, torch.bfloat16, enabled=noisy.is_cuda):
            mh, ph, Y = net(noisy)
        C = net.stft(clean)
        mc, pc = net.features(C)
        mn = net.features(net.stft(noisy))[0]
        counts = (torch.arange(mc.shape[1], device=mc.device) * net.hop >= start).float()
        known_at = (self.hz < known).float()[:, None]
        level = mean(mn.square().mean(2), counts)[..., None] / USUAL    # no other term grows with a clip's level
        weight = counts * (1 + (FIRST - 1) * (counts.cumsum(1) <= self.second))
        w = known_at * weight[..., None] / (level + 1e-3)
        terms['magnitude'] = ((mh - mc).square() * w).mean()
        terms['muffled'] = ((mc - mh).clamp_min(0).square() * w).mean()    # missing speech costs more than noise
        wl = w[..., :net.linear]
        terms['complex'] = ((mh[..., :net.linear] * ph - mc[..., :net.linear] * pc).abs().square() * wl).mean()

        power = [m ** (2 / net.compress) @ self.group for m in (mh, mc, mn)]
        usual_noisy = mean(power[2].mean(2), counts)
        silent, faint = self.silent_and_faint(power[1], usual_noisy, counts)
        terms['silence'], terms['bursts'] = self.silence(power[0], power[2], usual_noisy, silent)
        terms['faint'] = self.cut(C, Y, known, faint)
        terms['taught'] = torch.zeros_like(terms['faint'])
        if taught is not None and self.weights['taught']:
            terms['taught'] = self.unlike_teacher(mh, ph, mc, mn, taught, w * ~silent[..., None])

        mask = mh / mn.clamp_min(1e-3)                  # above what is known, follow the last known positions
        last = known_at * (self.hz > known - 2500)[:, None]
        edge = (mask * last).sum(-1, keepdim=True) / last.sum(-1, keepdim=True)
        terms['follow'] = ((mask - edge.detach().clamp_max(1)).square() * (1 - known_at) * counts[..., None]).mean()

        y = net.istft(Y, noisy.shape[1])
        zero = torch.zeros_like(terms['follow'])
        terms['consistency'] = self.inconsistency(mh, ph, y, wl) if self.weights['consistency'] else zero
        y, clean = (lowpass(x, known)[:, :self.end] * (self.sample >= start) for x in (y, clean))
        terms['snr'] = ((y - clean).square().sum(1) + 1e-4).log().mean() - (clean.square().sum(1) + 1e-4).log().mean()
        some = rms(clean) > 1e-3
        speech = some.float()[:, 0]                     # what follows means nothing without

        def pesq(clean, y):                             # of a clip of zeros it would be no number
            return self.perceptual(*(torch.where(some, x, self.hiss) for x in (clean, self.spoken(silent, clean, y))))

        for term, of in ('pesq', pesq), ('mos', self.worse), ('metric', self.disliked), ('critic', self.unlike):
            terms[term] = zero
            if self.weights[term]:
                terms[term] = (of(clean.float(), y.float()).float() * speech).sum() / speech.sum().clamp_min(1)
        return sum(self.weights[k] * v for k, v in terms.items()), terms
