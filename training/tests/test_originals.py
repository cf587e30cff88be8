"""Toy recordings: speech is bursts of noise with pauses, of a band that is given."""
import csv
import shutil
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from scipy.signal import butter, sosfilt

from training.data import originals
from training.data.prepare import level


def bursts(rate, hz, seed=0, seconds=2.):
    """A tenth of a second of sound after another of nearly nothing, with half a second of that before and after it
    all."""
    rng = np.random.default_rng(seed)
    n = int(seconds * rate)
    x = rng.standard_normal(n) * (np.arange(n) // (rate // 10) % 2)
    x = np.pad(x, rate // 2) * .1 + 1e-4 * rng.standard_normal(n + rate // 2 * 2)
    return x if hz >= rate / 2 else sosfilt(butter(16, hz, fs=rate, output='sos'), x)


@pytest.fixture
def run(tmp_path):
    def run(files, sources, *args):
        """files {path: (samples, rate)} -> the index's rows"""
        for path, (x, rate) in files.items():
            path = tmp_path / 'originals' / path
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, x, rate, 'PCM_24')
        (tmp_path / 'sources.tsv').write_text('source\tuse\tlicence\n'
                                              + ''.join(f'{s}\t{use}\tCC0\n' for s, use in sources.items()))
        subprocess.run([sys.executable, '-m', originals.__name__, tmp_path / 'originals', tmp_path / 'sources.tsv',
                        tmp_path / 'out', '--jobs', '1', *args], check=True)
        with open(tmp_path / 'out/index.tsv') as f:
            return list(csv.DictReader(f, delimiter='\t'))
    return run


def test_a_recording_goes_where_its_band_ends(run):
    rows = run({'speech/s/a/1.wav': (bursts(48000, 24000), 48000),
                'speech/s/b/1.wav': (bursts(44100, 7000), 44100),
                'speech/s/c/1.wav': (bursts(16000, 8000), 16000),
                'noise/n/-/1.wav': (bursts(48000, 24000, 1), 48000),
                'noise/n/-/2.wav': (bursts(22050, 6000, 2), 22050)}, {'s': 'train', 'n': 'train'})
    assert {(r['speaker_or_clip'], r['file']) for r in rows} == {
        ('a', 'speech_full_0.opus'), ('b', 'speech_wide_0.flac'), ('c', 'speech_wide_0.flac'),
        ('-/1.wav', 'noise_0.opus'), ('-/2.wav', 'noise_wide_0.flac')}
    bands = {r['speaker_or_clip']: int(r['band']) for r in rows}
    assert bands['a'] > 20000 and 7000 <= bands['b'] < 11000 and bands['c'] == 8000 and 6000 <= bands['-/2.wav'] < 9000


def test_what_is_taken_is_trimmed_levelled_and_where_the_index_says(run, tmp_path):
    files = {f'speech/s/{i}/1.wav': (bursts(16000, 8000, i) * gain, 16000) for i, gain in enumerate((1, .1, .02))}
    for i, r in enumerate(run(files, {'s': 'train'})):
        x, rate = soundfile.read(tmp_path / 'out' / r['file'])
        x = x[int(r['start_sample']):][:int(r['samples'])]
        assert rate == int(r['rate']) == 16000
        assert 20 * np.log10(level(x, rate)) == pytest.approx(-26, abs=.5)
        assert 2 * rate < len(x) < 2.5 * rate
        y = files[f'speech/s/{i}/1.wav'][0][int(r['trimmed']):][:len(x)] * 10 ** (float(r['gain_db']) / 20)
        assert np.abs(x - y)[200:-200].max() < .01


def spoken(seed, rate=16000, seconds=1.5):
    """Sounds of different octaves that follow each other without a pause."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(int(seconds * rate))
    bands = [sosfilt(butter(4, hz, 'band', fs=rate, output='sos'), x) for hz in ((120, 700), (300, 3000), (2500, 7000))]
    sounds = np.arange(len(x)) // (rate // 12) % 3
    return .1 * np.select([sounds == i for i in range(3)], bands)


@pytest.mark.parametrize('source, taken', [('s', True), ('cv-s', False)])
def test_a_microphone_at_home_has_to_be_quieter(run, source, taken):
    x = bursts(16000, 8000)
    x += np.random.default_rng(1).standard_normal(len(x)) * level(x, 16000) * 10 ** (-31 / 20)
    assert len(run({f'speech/{source}/a/1.wav': (x, 16000)}, {source: 'train'})) == taken


@pytest.mark.parametrize('snr_db, taken', [(60, True), (26, True), (15, False)])
def test_words_without_a_pause_are_not_taken_for_noisy(run, snr_db, taken):
    x = spoken(0)
    x += np.random.default_rng(1).standard_normal(len(x)) * level(x, 16000) * 10 ** (-snr_db / 20)
    rows = run({'speech/s/a/1.wav': (bursts(16000, 8000), 16000), 'speech/s/b/1.wav': (x, 16000)}, {'s': 'train'})
    assert [r['speaker_or_clip'] for r in rows] == ['a', 'b'][:1 + taken]


@pytest.mark.skipif(not shutil.which('ffmpeg'), reason='no ffmpeg')
def test_webm_is_read(run, tmp_path):
    x = bursts(48000, 24000)
    path = tmp_path / 'originals/speech/s/a/1.webm'
    path.parent.mkdir(parents=True)
    soundfile.write(tmp_path / 'x.wav', x, 48000)
    subprocess.run(['ffmpeg', '-v', 'error', '-i', tmp_path / 'x.wav', '-b:a', '128k', path], check=True)
    path.with_name('2.webm').write_bytes(b'no sound')
    row, = run({}, {'s': 'train'})
    assert int(row['samples']) / 48000 == pytest.approx(2.5, abs=.1)    # with what comes before the first burst


def test_nothing_that_is_judged_with_is_taken(run, tmp_path):
    (tmp_path / 'pairs.tsv').write_text('name\tspeech\tnoise\nx\theard\train.wav\n')
    speech, noise = (bursts(16000, 8000), 16000), (bursts(48000, 24000), 48000)
    rows = run({'speech/mine/a/1.wav': speech, 'speech/mine/heard/1.wav': speech, 'speech/judges/b/1.wav': speech,
                'speech/unknown/c/1.wav': speech, 'speech/mine/p232/1.wav': speech, 'noise/mine/-/00ff_rain.wav': noise,
                'noise/mine/-/00ff_wind.wav': noise},
               {'mine': 'train, its story judge', 'judges': 'judge'}, '--without', tmp_path / 'pairs.tsv')
    assert [r['speaker_or_clip'] for r in rows] == ['-/00ff_wind.wav', 'a']


def test_laughter_among_noise_is_a_voice(run):
    rows = run({f'noise/n/-/{name}.wav': (bursts(16000, 8000, i), 16000)
                for i, name in enumerate(('rain', 'Evil_Laugh', '1-1791-A-26', '1-1791-A-27'))}, {'n': 'train'})
    assert sorted(r['file'].split('_')[0] for r in rows) == ['noise', 'noise', 'voice', 'voice']
    assert {r['speaker_or_clip'] for r in rows if r['file'].startswith('noise')} == {'-/rain.wav', '-/1-1791-A-27.wav'}


def test_a_narrator_has_a_share_and_files_are_small(run, tmp_path, monkeypatch):
    monkeypatch.setattr(originals, 'PART', 1000)
    monkeypatch.setattr(originals, 'MINUTES', 3 / 60)

    def run_here(args, check):
        monkeypatch.setattr(sys, 'argv', [str(a) for a in args[2:]])
        originals.main()
    monkeypatch.setattr(subprocess, 'run', run_here)
    rows = run({f'speech/s/{who}/{i}.wav': (bursts(16000, 8000, i), 16000) for who in 'a-' for i in range(4)},
               {'s': 'train'})
    assert [r['speaker_or_clip'] for r in rows] == ['-'] * 4 + ['a'] * 2
    assert [(r['file'], r['start_sample']) for r in rows] == [(f'speech_wide_{i}.flac', '0') for i in range(6)]
    assert (tmp_path / 'out/sources.tsv').read_text().splitlines()[1].split('\t')[:4] == ['s', 'CC0', '6', '2']
