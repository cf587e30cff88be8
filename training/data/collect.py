"""Collect noise and speech from unpacked Debian packages:
python3 -m training.data.collect PACKAGES OUT [--speech NAME...] [--without DATA]

PACKAGES has a folder of the files of each package (apt-get download NAME && dpkg -x NAME_*.deb PACKAGES/NAME). OUT gets
what prepare.py reads: index.tsv and noise_0.opus, of the packages after --speech speech_full_0.opus (48 kHz) and
speech_wide_0.opus (16 kHz) instead. Noise leaves out what its path calls speech, singing or cries, or silero-vad hears
as speech; speech what silero-vad does not hear as speech, what is noisy, and narrators of the evaluation's pairs. Both
leave out what is short, silent or clipped, what exceeds a share, and copies, at whatever level and rate, of what is
already there and of DATA's noise; of DATA's speech a package may have a better copy. Licences are yours to read, in
usr/share/doc/NAME/copyright of each package: the sounds of hedgewars-data, for one, are under the GFDL.
"""
import argparse
import csv
import hashlib
import io
import os
import re
import zipfile
from collections import Counter

import numpy as np
import soundfile
import soxr

from training.data.prepare import RATE, decode, level

# Rate, seconds between clips, kbit/s. At 64 Opus codes a spectrum, as the codecs do that most recordings went through,
# and not a voice's excitation, as it does of speech at less: a network learns to tell speech from noise by that.
PACKS = {'noise': (RATE, .05, 96), 'speech_full': (RATE, .12, 64), 'speech_wide': (16000, .12, 64)}
NOISE = 10 ** (-24 / 20), 10 ** (-1.5 / 20)            # active RMS and peak, at most; the codec overshoots by a little
SPEECH = 10 ** (-26 / 20), .98
FADE = np.linspace(0, 1, RATE // 200)
SHORTEST, LONGEST = .2, 30                             # seconds
MINUTES = {'noise': 20, 'music': 5, 'speech': 60}      # at most: of a package, its music, a narrator
SHARES = {'music': .2, 'low': .18}                     # of all noise so far, at most; low: rates below 32 kHz
BANDS = np.geomspace(100, 6000, 17)                    # Hz; all that the lowest rate of any codec leaves
OCTAVES = np.geomspace(100, 6400, 7)                   # Hz; in which speech is told from its background
SOUND, ARCHIVE = (re.compile(rf'\.({of})$', re.I) for of in ('wav|ogg|oga|flac|mp3|opus|aiff?|au', 'pk3|wz|zip|jar'))
MUSIC = re.compile(r'music|bgm|soundtrack|ringtone|theme(?=[^/]*$)|tunes?\b|songs?\b|\bmus\b', re.I)
VOICE = re.compile(re.sub(r'\s', '', r'''
    voice|voix|speech|spoken|speak|talk|announc|taunt|vocal|vox|choir|scream|shout|yell|laugh|giggl|cackl|pain(?!t)
    |death|dying|grunt|groan|moan|(?<!s)ouch|cough|sneeze|sigh(?!t)|gasp|whisper|burp|cheer|hello|goodbye|human
    |wom[ae]n|female|girl|narrat|dialog|phrase|(?<![a-z])(ack|select)\d|_(ack|attack|select)|(?<!s)words?\b|alphabet
    |letters?/|countdown|hurt|insult|breath|kiss|snor(e|ing)|beatbox|codriver|help_up|burns|woohoo|hohoho|damn
    |(?<![a-z])(say|says|sing|chant|die|dies|dead|male|man
    |boy|baby|child|oops|wow|yes|no|hey|eek|uh|oof|argh?|huh|yay|yeah|cry|crying|players?)(?![a-z])
    |/(?!fx|ui)[a-z]{2}(_[a-z]{2})?/'''), re.I)
DOUBTFUL = re.compile(r'/eric_matyas/|eurovision\.ogg|lotr', re.I)  # whether those who licensed it could is in doubt
EVALUATED = re.compile(r'[/_](ro|gd|fr|be|fa)[/.]|/persian/')      # languages of the evaluation's narrators
TUXPAINT = re.compile(r'.*(?:_desc|/\d|_outline|_filled)(?:_(\w+))?\.ogg$')      # what is spoken, and its language


class LeftOut(Exception):
    """The reason for leaving a sound out."""


def leave_out_if(condition, why):
    """Raises LeftOut with the reason `why`."""
    if condition:
        raise LeftOut(why)


def sounds(folder):
    """-> {path below usr/share: function that returns a file for soundfile}"""
    found = {}
    for place, _, files in os.walk(folder):
        for path in (os.path.join(place, f) for f in files):
            name = os.path.relpath(path, folder).removeprefix('usr/share/')
            if SOUND.search(path) and not os.path.islink(path):
                found[name] = lambda path=path: path
            elif ARCHIVE.search(path) and zipfile.is_zipfile(path):
                z = zipfile.ZipFile(path)
                found |= {f'{name}/{i}': lambda z=z, i=i: io.BytesIO(z.read(i))
                          for i in filter(SOUND.search, z.namelist())}
    return found


def resampled(x, rate, to):
    """x [n] at `rate` -> at the rate `to`."""
    return x if rate == to else soxr.resample(x, rate, to)


def detector():
    """-> function that returns the seconds of speech in samples"""
    import silero_vad                                  # the tests do without
    model = silero_vad.load_silero_vad(sequence=True)
    return lambda x: (model.audio_forward(resampled(x, RATE, 16000)) > .5).sum() * .032


def contrast_of(x, rate):
    """dB from a recording's background up to its voice. The background is what the quietest tenth of the frames has in
    each octave: every sound of speech leaves some of them, so words show it that follow each other without a pause.
    Digital silence says nothing of it."""
    n = rate // 50
    power = np.abs(np.fft.rfft(x[:len(x) // n * n].reshape(-1, n) * np.hanning(n))) ** 2
    bins = (OCTAVES[OCTAVES < rate / 2] * n / rate).astype(int)
    octaves = np.add.reduceat(power[:, :n * 6400 // rate + 1], bins, axis=1)
    quiet, loud = np.quantile(octaves[power.sum(1) > 3 / 16 * n * n * 10 ** -8.5], [.1, .95], axis=0).sum(1)
    return 10 * np.log10(loud / quiet)


def sounding(x, contrast, rate=RATE, lead=.06):
    """-> what is loud, with `lead` seconds before it and a little after, and its first sample; contrast: dB that speech
    must have over its background, 0 for noise"""
    frame = rate // 50
    db = 10 * np.log10((x[:len(x) // frame * frame].reshape(-1, frame) ** 2).mean(1) + 1e-12)
    leave_out_if(not db.max() > -50, 'silent')
    low = np.quantile(db[db > -85], .1)
    leave_out_if(contrast and contrast_of(x, rate) < contrast, 'noisy')
    loud = np.flatnonzero(db > max(db.max() - 40, min(low + 6, db.max() - 25) if contrast else -85))
    leave_out_if((loud[-1] + 1 - loud[0]) * frame < SHORTEST * rate, 'short')
    start = max(0, loud[0] - round(lead * 50)) * frame
    return x[start:(loud[-1] + 5) * frame], start


def clip(x, rate, spoken, heard):
    """-> samples at 48 kHz of the loudest channel, the middle of what is long"""
    leave_out_if(rate < 22050 and not spoken, 'rate')
    leave_out_if(len(x) < SHORTEST * rate, 'short')
    x = x[:, (x ** 2).mean(0).argmax()]
    x = x - x.mean()
    leave_out_if((np.abs(x) > .995 * np.abs(x).max()).mean() > .005, 'clipped')
    x, _ = sounding(resampled(x, rate, RATE), (33 if len(x) > 1.5 * rate else 27) if spoken else 0)
    x = x[max(0, len(x) - LONGEST * RATE) // 2:][:LONGEST * RATE]
    seconds, speech = len(x) / RATE, heard(np.pad(x / np.abs(x).max() * .5, (RATE * 3 // 10, RATE // 2)))
    leave_out_if(spoken and speech < (.4 if seconds > 1.2 else .25) * seconds, 'not speech')
    leave_out_if(not spoken and speech > min(.3, .03 * seconds), 'speech')
    loudness, peak = SPEECH if spoken else NOISE
    x *= min(loudness / level(x), peak / np.abs(x).max())
    x[:len(FADE)] *= FADE
    x[-len(FADE):] *= FADE[::-1]
    return x


def is_full_band(x):
    """Energy between 14 and 17 kHz in loud frames, not 62 dB below the loudest frame."""
    power = np.abs(np.fft.rfft(x[:len(x) // 1024 * 1024].reshape(-1, 1024) * np.hanning(1024))) ** 2
    total, high = power.sum(1), power[:, 14000 * 1024 // RATE:17000 * 1024 // RATE].sum(1)
    return np.quantile(high[total > total.max() * 10 ** -2.5], .95) > total.max() * 10 ** -6.2


def is_copy(x, seen):
    """By 8 slices of the first two seconds in 16 bands, in dB below the loudest; x counts as seen from now on."""
    at = int(np.argmax(np.abs(x) > .1 * np.abs(x).max()))
    x = np.pad(x[at:at + 2 * RATE], (0, max(0, 2 * RATE - len(x) + at))).reshape(8, -1)
    power = np.abs(np.fft.rfft(x * np.hanning(x.shape[1]))) ** 2
    e = np.add.reduceat(power, (BANDS / RATE * x.shape[1]).astype(int), axis=1)[:, :-1].ravel()
    new = 10 * np.log10(e / max(e.max(), 1e-30) + 1e-5).astype(np.float32)  # silence is a copy of nothing
    old = np.reshape(seen, (-1, len(new)))
    audible = np.maximum(old, new) > -45
    seen.append(new)
    return ((np.abs(old - new) * audible).sum(1) < audible.sum(1)).any()       # 1 dB on average


def see(data, seen):
    """Marks DATA's noise as seen."""
    with open(os.path.join(data, 'index.tsv')) as f:
        for r in csv.DictReader(f, delimiter='\t'):
            if r['file'].startswith('noise'):
                start, rate = int(r['start_sample']), int(r['rate'])
                x = decode((os.path.join(data, r['file']), start, start + int(r['samples'])))
                is_copy(resampled(x / np.float32(32768), rate, RATE), seen)


def name_in_index(package, path, spoken):
    """-> source/speaker_or_clip; None: left out because of its name"""
    if DOUBTFUL.search(path) or (EVALUATED if spoken else VOICE).search(path):
        return None
    if not spoken:
        return f'debian/{package}/{path}'
    who = '/'.join(path.split('/')[-4:-1])
    if package.startswith('tuxpaint'):
        spoken = TUXPAINT.match(path)
        who = spoken and (f'tuxpaint-{spoken[1]}' if spoken[1] else who)
    return who and f"deb-{package.removesuffix('-default')}/{who}"


def collect(packages, speech, seen):
    """-> {pack: [(name, samples)]}"""
    heard, taken, packs = detector(), Counter(), {pack: [] for pack in PACKS}
    for package in sorted(os.listdir(packages)):
        found, outcomes, spoken = sounds(os.path.join(packages, package)), Counter(), package in speech
        for path in sorted(found, key=lambda path: hashlib.md5(path.encode()).digest()):
            name = name_in_index(package, path, spoken)
            kind = 'speech' if spoken else 'music' if MUSIC.search(path) else 'noise'
            owner = name if spoken else (package, kind)
            try:
                leave_out_if(name is None, 'name')
                leave_out_if(taken[owner] > MINUTES[kind] * 60 * RATE, 'share')
                x, rate = soundfile.read(found[path](), dtype='float32', always_2d=True)
                kinds = {kind} if spoken else {kind, 'noise', 'low' if rate < 32000 else 'noise'}
                leave_out_if(any(taken[k] > SHARES[k] * taken['noise'] for k in kinds & set(SHARES)), 'share')
                x = clip(x, rate, spoken, heard)
                leave_out_if(is_copy(x, seen), 'copy')
            except (LeftOut, soundfile.SoundFileError, ValueError) as why:
                outcomes[str(why) if isinstance(why, LeftOut) else 'unreadable'] += 1
                continue
            pack = 'noise' if not spoken else 'speech_full' if rate >= 32000 and is_full_band(x) else 'speech_wide'
            for k in kinds | {owner}:
                taken[k] += len(x)
            outcomes[pack] += 1
            x = np.clip(resampled(x, RATE, PACKS[pack][0]), -1, 1)
            packs[pack].append((name, (x * 32767).astype(np.int16)))
        print(package, dict(outcomes), flush=True)
    return packs


def write(out, pack, clips, index):
    """Writes a pack's clips, [(name, int16 samples at the pack's rate)], as one Opus file, and a line for each into
    `index`."""
    rate, gap, kbits = PACKS[pack]
    file, gap, at = pack + '_0.opus', np.zeros(int(gap * rate), np.int16), 0
    with soundfile.SoundFile(os.path.join(out, file), 'w', rate, 1, format='OGG', subtype='OPUS',
                             compression_level=1 - (kbits - 6) / 250) as f:     # libsndfile's way to say a bit rate
        for name, x in clips:
            f.write(x)
            f.write(gap)
            print(file, at, len(x), rate, *name.split('/', 1), sep='\t', file=index)
            at += len(x) + len(gap)


def main():
    ap = argparse.ArgumentParser(description='Collect noise and speech from unpacked Debian packages.')
    ap.add_argument('packages')
    ap.add_argument('out')
    ap.add_argument('--speech', nargs='+', default=[], metavar='NAME', help='packages whose sounds are speech')
    ap.add_argument('--without', metavar='DATA', help='another folder that prepare.py reads: none of its noise again')
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    seen = []
    if a.without:
        see(a.without, seen)
    packs = collect(a.packages, a.speech, seen)
    with open(os.path.join(a.out, 'index.tsv'), 'w') as index:
        print('file', 'start_sample', 'samples', 'rate', 'source', 'speaker_or_clip', sep='\t', file=index)
        for pack, clips in packs.items():
            print(f'{pack}: {sum(len(x) for _, x in clips) / PACKS[pack][0] / 60:.1f} min, {len(clips)} clips')
            if clips:
                write(a.out, pack, sorted(clips, key=lambda clip: clip[0]), index)


if __name__ == '__main__':
    main()
