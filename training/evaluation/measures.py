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
first        WB-PESQ of what comes before one second of speech is over, alone
before, after
             dB, the level of speech in the 50 ms before and after vowels begin, over the clean file's
faint        dB, the same in frames of 20 ms that are 20 to 50 dB under the loudest; their mean, each no less than -40
breath       dB, the same in what the table of pairs marks (columns `mark` and `end`, in samples)
events       dB, output over input in pauses (30 dB below speech) where noise is within 15 dB of its loudest there

The level of speech or noise is that of the projection on it alone, so that the other one does not count.
"""
import numpy as np
from pesq import NoUtterancesError, pesq
from pystoi import stoi
from scipy.signal import resample_poly, stft

NAMES = ('pesq', 'estoi', 'si_sdr', 'cut_2_4', 'cut_4_8', 'between', 'pause', 'pause_worst', 'onset', 'sibilant', 'lsd',
         'left', 'first', 'before', 'after', 'faint', 'breath', 'events')
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


def passed(c, e):
    """dB, the level of c's projection in e, no less than -40: of [n], or the mean over frames [n, samples]"""
    return np.mean(20 * np.log10(np.maximum(.01, (c * e).sum(-1) / ((c ** 2).sum(-1) + 1e-12))))


def quieter(clean, y, rate):
    """-> dB"""
    c, e = frames(clean, rate), frames(y, rate)
    power = (c ** 2).mean(1)
    some = (power < 1e-2 * power.max()) & (power > 1e-5 * power.max())
    return passed(c[some], e[some]) if some.sum() >= 5 else np.nan


def around_vowels(clean, y, rate):
    """-> dB before and dB after. A vowel begins where 100 to 1000 Hz rise to less than 15 dB under their loudest, after
    50 ms that are 10 dB and more below that."""
    n = rate // 100
    low = (np.abs(bins(clean, rate // 50, n, rate)[2:21]) ** 2).sum(0)
    loud = low > .03 * low.max()
    starts = [i for i in range(6, len(low) - 6) if loud[i] and not loud[i - 1]
              and low[i - 5:i].max() < .1 * low[i:i + 4].max()]
    at = lambda first: [slice((i + first) * n, (i + first + 5) * n) for i in starts]
    mean = lambda slices: np.mean([passed(clean[s], y[s]) for s in slices]) if slices else np.nan
    return mean(at(-5)), mean(at(0))


def rated(rate, clean, y, band='wb'):
    """PESQ; 1 if y has nothing that it takes for an utterance, nan if clean has nothing"""
    try:
        return pesq(rate, clean, y, band)
    except NoUtterancesError:
        return 1. if y is not clean and np.isfinite(rated(rate, clean, clean, band)) else np.nan


def first_second(clean, y, rate):
    """At 16 kHz -> WB-PESQ of what comes before one second of speech is over"""
    power = frame_power(clean, rate)
    end = (int((power > 1e-3 * power.max()).argmax()) + 50) * rate // 50
    return rated(rate, clean[:end], y[:end]) if y[:end].any() else 1.


def events(clean, noisy, y, rate):
    """-> dB"""
    c, noise, e, m = (frame_power(x, rate) for x in (clean, noisy - clean, y, noisy))
    quiet = c < 1e-3 * c[c > .01 * c.max()].mean()
    if not quiet.any():
        return np.nan
    loud = quiet & (noise > 10 ** -1.5 * noise[quiet].max())
    return decibel(e[loud].sum() / m[loud].sum())


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


def measure(clean, noisy, y, rate, marked=None):
    """-> {name: value}; marked: a slice that holds breath"""
    values = dict.fromkeys(NAMES, np.nan)
    if not clean.any():
        return values | dict(left=10 * np.log10((y ** 2).sum() / (noisy ** 2).sum() + 1e-12))
    c, m, e = (at_16k(x, rate) for x in (clean, noisy, y))
    if y.any():
        values |= dict(pesq=rated(8000, clean, y, 'nb') if rate == 8000 else rated(16000, c, e),
                       si_sdr=si_sdr(clean, y))
    else:                                               # of silence neither can be computed
        values['pesq'] = 1.
    values['cut_2_4'], values['cut_4_8'] = cut(c, m, e)
    values['before'], values['after'] = around_vowels(clean, y, rate)
    if marked:
        values['breath'] = passed(*(frames(x[marked], rate) for x in (clean, y)))
    values['pause'], values['pause_worst'] = pauses(clean, noisy, y, rate)
    if rate == 48000:
        values['lsd'] = lsd(clean, y)
    return values | dict(estoi=stoi(c, e, 16000, extended=True), between=between(c, m, e), onset=onset(clean, y, rate),
                         sibilant=sibilant(c, e), faint=quieter(clean, y, rate), first=first_second(c, e, 16000),
                         events=events(clean, noisy, y, rate))
