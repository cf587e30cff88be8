"""Prepare original recordings for training: python3 -m training.data.originals FOLDER SOURCES OUT [--without PAIRS...]

FOLDER/KIND/SOURCE/SPEAKER/FILE holds recordings as they were published: KIND is speech, voice (laughter, coughs,
singing: sounds that must come through like speech), noise or music (noise too). SOURCES is a table with the columns
source, use and licence. A source that it does not name, or that is there to judge with, stays out, and so does every
speaker and noise of the tables PAIRS (pairs.tsv of an evaluation). OUT gets what prepare.py reads: index.tsv,
speech_full_N.opus, voice_full_N.opus and noise_N.opus (48 kHz, 96 kbit/s), speech_wide_N.flac, voice_wide_N.flac and
noise_wide_N.flac (16 kHz, what has nothing above 8 kHz), each smaller than 60 MB; and sources.tsv, for model cards.
Where a recording's band ends is measured: files of any rate come from telephones and MP3s.
"""
import argparse
import csv
import io
import os
import re
import subprocess
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import soundfile

from training.data.collect import NOISE, SOUND, SPEECH, LeftOut, leave_out_if, resampled, sounding
from training.data.prepare import RATE, WIDE, level

FULL = 14000                                            # Hz: what reaches up to here is full band
KBITS, GAP = 96, .12                                    # of Opus; seconds between clips
LEAD = .5                                               # seconds before the first word: breath, the room's own tone
CONTRAST = 28, 34                                       # dB from the background of speech up to it, at least: of
                                                        # studios and readers; of people's own microphones
MINUTES = 15                                            # of a named speaker, at most: many voices before long ones
LONGEST = 180                                           # seconds of one noise
PART = 55e6                                             # bytes of a file, at most 5 % more
# Heard in the product's own demonstration, and in VoiceBank's test.
NEVER = re.compile(r'alsa-utils|asterisk-(prompt-(fr-armelle|es-co)|moh-opsound)|\bp2(32|57)\b')
# Read by people at home.
HOME = re.compile(r'/(cv|commonvoice|speechocean)[^/]*/[^/]*/[^/]*$')
# Laughter among noise, by name, or by ESC-50's class: a network that hears it as noise removes it from calls.
LAUGHTER = re.compile(r'laugh|giggl|chuckl|-[A-Z]-26\.', re.I)


def band(x, rate):
    """Hz up to which loud frames have energy, not 70 dB below the loudest one in half a kilohertz."""
    n = rate // 50
    power = np.abs(np.fft.rfft(x[:len(x) // n * n].reshape(-1, n) * np.hanning(n))) ** 2
    total = power.sum(1)
    groups = np.quantile(power[total > total.max() * 10 ** -2.5][:, :n // 2].reshape(-1, n // 20, 10).sum(2), .95,
                         axis=0)
    return 500 * (1 + int(np.flatnonzero(groups > total.max() * 1e-7)[-1]))


def read(path):
    """-> samples [n, channels], rate; ffmpeg decodes what libsndfile does not know"""
    if path.endswith('.webm'):
        path = io.BytesIO(subprocess.run(['ffmpeg', '-v', 'error', '-i', path, '-f', 'au', '-'],
                                         stdin=subprocess.DEVNULL, capture_output=True).stdout)
    return soundfile.read(path, dtype='float32', always_2d=True)


def prepared(job):
    """-> (rate, measured band, first sample taken, gain in dB, int16 samples), or why it is left out"""
    path, kind = job
    spoken = kind in ('speech', 'voice')
    try:
        x, rate = read(path)
        leave_out_if(len(x) < .1 * rate, 'short')
        x = x[:, (x ** 2).mean(0).argmax()]
        x = x - x.mean()
        leave_out_if((np.abs(x) > .995 * np.abs(x).max()).mean() > .005, 'clipped')
        to = RATE if rate >= 32000 else WIDE
        x = resampled(x, rate, to)
        contrast = CONTRAST[bool(HOME.search(path))] if kind == 'speech' else 0
        loud, start = sounding(x, contrast, to, LEAD if spoken else .06)
        hz = band(loud, to)
        if hz < FULL and to == RATE:
            loud, start, to = resampled(loud, RATE, WIDE), start * WIDE // RATE, WIDE
        if not spoken:
            cut = max(0, len(loud) - LONGEST * to) // 2
            loud, start = loud[cut:cut + LONGEST * to], start + cut
        loudness, peak = SPEECH if spoken else NOISE
        gain = min(loudness / level(loud, to), peak / np.abs(loud).max())
        fade = np.linspace(0, gain, to // 200)
        loud[len(fade):-len(fade)] *= gain
        loud[:len(fade)] *= fade
        loud[-len(fade):] *= fade[::-1]
        return to, hz, start, 20 * np.log10(gain), (np.clip(loud, -1, 1) * 32767).astype(np.int16)
    except LeftOut as why:
        return str(why)
    except (soundfile.SoundFileError, ValueError):
        return 'unreadable'


class Part:
    """The files of one pack, begun anew before one is too large; lines for the index."""

    def __init__(self, out, pack, rate):
        self.out, self.pack, self.rate, self.count, self.file = out, pack, rate, 0, None
        self.gap = np.zeros(int(GAP * rate), np.int16)

    def add(self, x, index, *what):
        """Writes samples x [n] at the pack's rate, and their line, which ends with `what`, into `index`."""
        if self.file and os.path.getsize(self.file.name) > PART:
            self.file.close()
            self.file = None
        if not self.file:
            self.name, self.at = f"{self.pack}_{self.count}.{'opus' if self.rate == RATE else 'flac'}", 0
            # libsndfile's way to say a bit rate
            opus = dict(format='OGG', subtype='OPUS', compression_level=1 - (KBITS - 6) / 250)
            self.file = soundfile.SoundFile(os.path.join(self.out, self.name), 'w', self.rate, 1, **opus
                                            if self.rate == RATE else dict(subtype='PCM_16'))
            self.count += 1
        print(self.name, self.at, len(x), self.rate, *what, sep='\t', file=index)
        for y in x, self.gap:
            self.file.write(y)
            self.at += len(y)


def recordings(folder, sources, evaluated):
    """-> [(kind, source, speaker, path)]: everything that training may use"""
    found = []
    for place, _, files in sorted(os.walk(folder, followlinks=True)):
        if not files:
            continue
        kind, source, speaker = os.path.relpath(place, folder).split(os.sep)
        if 'train' not in sources.get(source, ('', ''))[0] or speaker in evaluated:
            continue
        for f in sorted(files):
            if ((SOUND.search(f) or f.endswith('.webm')) and f.split('_', 1)[-1] not in evaluated
                    and not NEVER.search(f'{source}/{speaker}/{f}')):
                heard = 'voice' if kind == 'noise' and LAUGHTER.search(f) else kind
                found.append((heard, source, speaker, os.path.join(place, f)))
    return found


def main():
    ap = argparse.ArgumentParser(description='Prepare original recordings for training.')
    ap.add_argument('folder')
    ap.add_argument('sources')
    ap.add_argument('out')
    ap.add_argument('--without', nargs='+', default=[], metavar='PAIRS',
                    help='tables of evaluations, none of whose speakers and noises is taken')
    ap.add_argument('--jobs', type=int, default=os.cpu_count())
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    with open(a.sources) as f:
        sources = {r['source']: (r['use'], r['licence'])
                   for r in csv.DictReader(f, delimiter='\t', quoting=csv.QUOTE_NONE)}
    evaluated = set()
    for table in a.without:
        with open(table) as f:
            evaluated |= {r[k] for r in csv.DictReader(f, delimiter='\t') for k in ('speech', 'noise')}
    found = recordings(a.folder, sources, evaluated)
    rates = dict(speech_full=RATE, speech_wide=WIDE, voice_full=RATE, voice_wide=WIDE, noise=RATE, noise_wide=WIDE)
    parts = {pack: Part(a.out, pack, rate) for pack, rate in rates.items()}
    seconds, outcomes, clips, speakers = Counter(), defaultdict(Counter), Counter(), defaultdict(set)
    with ProcessPoolExecutor(a.jobs) as pool, open(os.path.join(a.out, 'index.tsv'), 'w') as index:
        print('file', 'start_sample', 'samples', 'rate', 'source', 'speaker_or_clip', 'band', 'trimmed', 'gain_db',
              sep='\t', file=index)
        for (kind, source, speaker, path), what in zip(found,
                                                       pool.map(prepared, [(r[3], r[0]) for r in found], chunksize=16)):
            spoken = kind in ('speech', 'voice')
            if spoken and speaker != '-' and seconds[source, speaker] > MINUTES * 60:
                what = 'share'
            if isinstance(what, str):
                outcomes[source][what] += 1
                continue
            rate, hz, start, gain, x = what
            full, wide = (f'{kind}_full', f'{kind}_wide') if spoken else ('noise', 'noise_wide')
            pack = full if rate == RATE else wide
            parts[pack].add(x, index, source, speaker if spoken
                            else f'{speaker}/{os.path.basename(path)}', hz, start, f'{gain:.1f}')
            seconds[source, speaker] += len(x) / rate
            seconds[pack] += len(x) / rate
            seconds[source] += len(x) / rate
            outcomes[source][pack] += 1
            clips[source] += 1
            speakers[source].add(speaker)
    for part in parts.values():
        if part.file:
            part.file.close()
    with open(os.path.join(a.out, 'sources.tsv'), 'w') as f:
        print('source', 'licence', 'clips', 'speakers', 'minutes', sep='\t', file=f)
        for source in sorted(clips):
            print(source, sources[source][1], clips[source], len(speakers[source]), f'{seconds[source] / 60:.1f}',
                  sep='\t', file=f)
    for source, of in outcomes.items():
        print(source, dict(of))
    for pack in parts:
        print(f'{pack}: {seconds[pack] / 3600:.2f} h')


if __name__ == '__main__':
    main()
