"""The measures of evaluate.py, each of `clean`, `noisy` and the enhanced `y`, 1-D and of one length. A measure is nan
if a clip has too little of what it looks at.

pesq, estoi  WB-PESQ and ESTOI at 16 kHz; narrow-band PESQ of files at 8 kHz; PESQ is 1 if y is silent
si_sdr       dB, at the file's rate; none if y is silent
cut_2_4, cut_4_8
             %: of the bins of 2-4 and of 4-8 kHz in which speech dominates, those that are more than 6 dB below the
             clean file. Speech dominates where it is 6 dB over the noise, 10 dB over the clean file's quietest
             twentieth at that frequency and within 60 dB of its loudest bin. Frames of 32 ms
between      dB, the level of noise between the harmonics of voiced speech: in the bins of 100 to 4000 Hz that are at
             least .3 of the pitch away from its multiples and in which noise is louder; mean over voiced frames of
             64 ms, no less than -60
pause, pause_worst
             dB, what is left in pauses: output over input in 20 ms frames whose clean level is 30 dB below the median
             speech frame, no less than -60; median and 90th percentile of these frames
onset        dB, the level of speech in the 100 ms after a pause, over that elsewhere: negative if words are cut
sibilant     dB, the level of speech at 3-8 kHz in frames with most of their energy there, no less than -20
lsd          dB, distance of log spectra above 8 kHz, for files at 48 kHz
left         dB, output over input if the clean file is silent from end to end

The level of speech or noise is that of the projection on it alone, so that the other one does not count.
"""
import numpy as np
from pesq import pesq
from pystoi import stoi
from scipy.signal import resample_poly, stft

NAMES = ('pesq', 'estoi', 'si_sdr', 'cut_2_4', 'cut_4_8', 'between', 'pause', 'pause_worst', 'onset', 'sibilant', 'lsd',
         'left')
LEAST_DB = -60.


def decibel(ratio):
    """A ratio of powers -> dB, no less than LEAST_DB."""
    return 10 * np.log10(np.maximum(ratio, 10 ** (LEAST_DB / 10)))


def bins(x, n, hop, rate=16000, size=None):
    """-> complex [frequency, time] in frames of n samples"""
    return stft(x, rate, nperseg=n, noverlap=n - hop, nfft=size)[2]


def frames(x, rate):
    """-> [n, samples of 20 ms]"""
    n = rate // 50
    return x[:len(x) // n * n].reshape(-1, n)


def frame_power(x, rate):
    """-> [frames of 20 ms]"""
    return (frames(x, rate) ** 2).mean(1) + 1e-12


def si_sdr(clean, y):
    """Of one rate -> dB."""
    clean, y = clean - clean.mean(), y - y.mean()
    s = clean * (clean @ y) / (clean @ clean)
    return 10 * np.log10((s @ s) / ((y - s) @ (y - s)))


def cut(clean, noisy, y):
    """At 16 kHz -> % at 2-4 kHz, % at 4-8 kHz"""
    C, M, Y = (bins(x, 512, 128) for x in (clean, noisy, y))
    c, noise, e = np.abs(C) ** 2, np.abs(M - C) ** 2, np.abs(Y) ** 2
    speech = (c > 4 * noise) & (c > 10 * np.quantile(c, .05, axis=1, keepdims=True)) & (c > 1e-6 * c.max())
    share = lambda band: 100 * (e < c / 4)[band][speech[band]].mean() if speech[band].sum() >= 100 else np.nan
    return share(slice(64, 128)), share(slice(128, 256))


def pitch(power):
    """[frequencies, frames] of 64 ms in 2048 samples at 16 kHz -> Hz [frames]; 0 where there is none of 80 to 400 Hz"""
    window = np.fft.irfft(np.abs(np.fft.rfft(np.hanning(1024), 2048)) ** 2)
    r = np.fft.irfft(power, axis=0)[:202] / (window[:202, None] / window[0])
    at, before, after = r[40:201], r[39:200], r[41:]
    # The first such peak: its multiples are as high.
    peak = (at >= before) & (at >= after) & (at > .9 * at.max(0)) & (at > .6 * r[0])
    return np.where(peak.any(0), 16000 / (40 + peak.argmax(0)), 0)


def between(clean, noisy, y):
    """At 16 kHz"""
    C, M, Y = (bins(x, 1024, 256, size=2048) for x in (clean, noisy, y))
    N = M - C
    c, noise = np.abs(C) ** 2, np.abs(N) ** 2
    hz = pitch(c) * (c.sum(0) > .01 * c.sum(0).max())
    f = np.arange(len(c))[:, None] * 16000 / 2048
    at = f / np.maximum(hz, 1)
    some = (hz > 0) & (f > 100) & (f < 4000) & (np.abs(at - at.round()) > .3) & (noise > c)
    enough = some.sum(0) >= 10
    passed = lambda X: (X * some).sum(0)[enough]
    return 20 * np.log10(max(1e-3, (passed((N.conj() * Y).real) / passed(noise)).mean())) if enough.any() else np.nan


def pauses(clean, noisy, y, rate):
    """-> the median, and what a tenth is above"""
    c, m, e = (frame_power(x, rate) for x in (clean, noisy, y))
    quiet = (c < 1e-3 * np.median(c[c > 1e-3 * c.max()])) & (m > 1e-9)
    return np.quantile(decibel(e[quiet] / m[quiet]), (.5, .9)) if quiet.any() else (np.nan, np.nan)


def onset(clean, y, rate):
    """-> dB"""
    c, e = frames(clean, rate), frames(y, rate)
    power = (c ** 2).mean(1) + 1e-12
    usual = np.median(power[power > 1e-3 * power.max()])
    loud = power > 1e-3 * usual
    starts = [i for i in range(5, len(loud) - 5) if loud[i] and not loud[i - 5:i].any()
              and power[i:i + 5].mean() > .03 * usual]
    first = np.zeros_like(loud)
    for i in starts:
        first[i:i + 5] = True
    passed = lambda at: 20 * np.log10(max(1e-3, (c[at] * e[at]).sum() / (c[at] ** 2).sum()))
    rest = loud & ~first
    return np.mean([passed(slice(i, i + 5)) for i in starts]) - passed(rest) if starts and rest.any() else np.nan


def sibilant(clean, y):
    """At 16 kHz"""
    C, Y = bins(clean, 512, 128), bins(y, 512, 128)
    c = np.abs(C) ** 2
    high, total = c[96:].sum(0), c.sum(0)
    some = (high > .5 * total) & (total > 1e-3 * total.max())
    if some.sum() < 5:
        return np.nan
    passed = (C.conj() * Y).real[96:, some].sum(0) / high[some]
    return 20 * np.log10(max(.1, passed.mean()))


def lsd(clean, y):
    """At 48 kHz; what lies 60 dB under the clean file's loudest is silence."""
    power = lambda x: np.abs(bins(x, 1024, 256, 48000)[171:]) ** 2
    c, e = power(clean), power(y)
    least = 1e-6 * c.max()
    return np.sqrt(((10 * np.log10((c + least) / (e + least))) ** 2).mean(0)).mean()


def at_16k(x, rate):
    """x [n] at `rate` -> at 16 kHz."""
    return x if rate == 16000 else resample_poly(x, 16000, rate)


def measure(clean, noisy, y, rate):
    """-> {name: value}"""
    values = dict.fromkeys(NAMES, np.nan)
    if not clean.any():
        return values | dict(left=10 * np.log10((y ** 2).sum() / (noisy ** 2).sum() + 1e-12))
    c, m, e = (at_16k(x, rate) for x in (clean, noisy, y))
    if y.any():
        values |= dict(pesq=pesq(8000, clean, y, 'nb') if rate == 8000
                       else pesq(16000, c, e, 'wb'), si_sdr=si_sdr(clean, y))
    else:                                               # of silence neither can be computed
        values['pesq'] = 1.
    values['cut_2_4'], values['cut_4_8'] = cut(c, m, e)
    values['pause'], values['pause_worst'] = pauses(clean, noisy, y, rate)
    if rate == 48000:
        values['lsd'] = lsd(clean, y)
    return values | dict(estoi=stoi(c, e, 16000, extended=True), between=between(c, m, e), onset=onset(clean, y, rate),
                         sibilant=sibilant(c, e))
