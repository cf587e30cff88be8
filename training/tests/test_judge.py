"""Pairs to judge by, of toy recordings."""
import csv
import lzma
import subprocess
import sys

import numpy as np
import pytest

soundfile = pytest.importorskip('soundfile')
judge = pytest.importorskip('training.evaluation.judge')
from training.data.fetch import RECORDINGS, rows
from training.data.prepare import for_judging, level

NUMBERS = [f'{i}' for i in range(100)]
JUDGED = [n for n in NUMBERS if for_judging('house/' + n)][:2]
OTHERS = [n for n in NUMBERS if not for_judging('house/' + n)][:2]
with lzma.open(RECORDINGS, 'rt') as f:
    HEARD = next(r['speaker'] for r in rows(f) if r['source'] == 'cv61-sample')
COUNT = 14                                              # every kind of event, open and sealed
SPEECH = ('vctk-a/vctk-p228', 'vctk-a/vctk-p229', 'daps-a/m1', 'cv61-sample/fi-1', 'cv61-sample/fi-2',
          'cv61-sample/' + HEARD, 'cv-fa/' + HEARD, 'librispeech-24k-a/1', 'librispeech-24k-a/2', 'unknown/3')
FILES = {**{f'speech/{s}/a.wav': 'voice' for s in SPEECH},
         'speech/hindi-100/4/a.wav': 'noisy', 'speech/sefire/-/a.wav': 'noisy', 'speech/cv61-noisy/5/a.wav': 'noisy',
         'noise/ambient-mixer/-/Street.wav': 'noise', 'noise/ambient-mixer/-/Kids playing.wav': 'noise',
         'noise/kitchen20-own/-/couverts.wav': 'blows', 'noise/keystrokes/Zoom/A.wav': 'blows',
         'noise/sefire/-/a.wav': 'noise', 'voice/ambient-mixer/-/Distant chatter.wav': 'noise',
         'voice/ambient-mixer/-/Calm breathing.wav': 'noise', 'voice/ambient-mixer/-/Man Laughing.wav': 'voice',
         'voice/ambient-mixer/-/Whispering.wav': 'voice', 'voice/sefire/-/a.wav': 'voice',
         'music/sefire/-/a.wav': 'noise'}


def sound(kind, rate, rng):
    """Three seconds: syllables after a quiet start, a soft noise behind them; steady noise; or blows."""
    t = np.arange(3 * rate) / rate
    noise = rng.standard_normal(len(t))
    syllables = np.sin(2 * np.pi * 180 * t + np.sin(2 * np.pi * 3 * t)) * (np.sin(2 * np.pi * 2 * t) > 0) * (t > .4)
    return {'voice': syllables * .2 + noise * 2e-4, 'noisy': syllables * .2 + noise * 2e-2, 'noise': noise * .1,
            'blows': noise * (.3 * np.exp(-(t % .5) / .03) + 1e-4)}[kind]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    top, rng = tmp_path_factory.mktemp('judge'), np.random.default_rng(0)
    for i, (path, kind) in enumerate(FILES.items()):
        (top / 'rec' / path).parent.mkdir(parents=True, exist_ok=True)
        rate = 16000 if 'daps' in path else 48000
        soundfile.write(top / 'rec' / path, sound(kind, rate, rng), rate)
    rooms = np.zeros((4, 24000))
    rooms[:, 12] = .9
    rooms[:, 12000] = .7                                # an echo after a quarter of a second
    soundfile.write(top / 'rooms.flac', rooms.ravel(), 48000)
    (top / 'rooms.tsv').write_text('room\tsource\tplace\n'
                                   + ''.join(f'{i}\thouse\t{n}\n' for i, n in enumerate(JUDGED + OTHERS)))
    return top


def made(folder, out, *options):
    subprocess.run([sys.executable, '-m', judge.__name__, folder / 'rooms', out, folder / 'rec', *options], check=True)
    with open(out / 'pairs.tsv') as f:
        return list(csv.DictReader(f, delimiter='\t'))


@pytest.fixture(scope='module')
def pairs(folder):
    return made(folder, folder / 'out', '--count', str(COUNT))


def sounds(folder, row):
    return [soundfile.read(folder / 'out' / f"{row['name']}_{part}.flac")[0] for part in ('clean', 'noisy')]


def of(pairs, domain):
    return [p for p in pairs if p['name'].startswith(domain + '_')]


def test_the_same_folders_make_the_same_pairs(folder, pairs):
    made(folder, folder / 'again', '--count', '4')
    again = list((folder / 'again').glob('*.flac'))
    assert len(again) > 4 * len(judge.DOMAINS)
    for path in again:
        for a, b in zip(soundfile.read(path), soundfile.read(folder / 'out' / path.name)):
            assert np.array_equal(a, b)
    made(folder, folder / 'other', '--count', '1', '--seed', '1')
    name = 'studio_000_noisy.flac'
    assert not np.array_equal(*(soundfile.read(folder / f / name)[0][:40000] for f in ('other', 'out')))


def test_each_domain_has_its_pairs_and_both_halves_the_same_kinds(pairs):
    for domain in judge.DOMAINS:
        assert len(of(pairs, domain)) == COUNT
        kinds = [[(p['kind'], p['snr_db'] if domain != 'events' else '') for p in of(pairs, domain)
                  if int(p['name'][-3:]) % 2 == half] for half in (0, 1)]
        if domain not in ('faint', 'real'):
            assert kinds[0] == kinds[1]
        assert [k for k, _ in kinds[0]] == [k for k, _ in kinds[1]]
    assert len({p['kind'] for p in of(pairs, 'events')}) == 7


def test_nothing_but_what_training_leaves_out(pairs):
    assert not any(name in p['speech'] for p in pairs for name in ('p229', f'/{HEARD}/', 'unknown'))
    assert not any('Kids' in p['noise'] for p in pairs)
    assert any('p228' in p['speech'] for p in pairs)
    assert {p['room'] for p in pairs} == {''} | {'house/' + n for n in JUDGED}


def test_half_a_second_of_room_comes_before_a_sentence(folder, pairs):
    for p in of(pairs, 'studio'):
        clean, _ = sounds(folder, p)
        rate, loud = int(p['rate']), level(np.repeat(clean, 48000 // int(p['rate'])))
        before = clean[rate // 20:rate * 2 // 5]
        assert 1e-5 * loud < before.std() < 1e-2 * loud and before.any()
        assert np.abs(clean[rate // 2:rate * 4 // 5]).max() > .3 * loud


def test_levels_of_noise_are_as_the_table_says(folder, pairs):
    for p in of(pairs, 'studio') + of(pairs, 'languages'):
        clean, noisy = sounds(folder, p)
        snr = 20 * np.log10(level(clean, int(p['rate'])) / (noisy - clean).std())
        # of what is brought to 16 kHz the noise above 8 kHz is gone
        assert float(p['snr_db']) - .5 < snr < float(p['snr_db']) + (.5 if p['rate'] == '48000' else 6)


def test_events_come_only_where_nobody_speaks(folder, pairs):
    for p in of(pairs, 'events'):
        clean, noisy = sounds(folder, p)
        n = int(p['rate']) // 50
        power = lambda x: (x[:len(x) // n * n].reshape(-1, n) ** 2).mean(1)
        speech, noise = power(clean), power(noisy - clean)
        spoken = speech > .03 * speech.max()
        assert noise[~spoken].max() > 100 * np.median(noise)
        assert noise[spoken].max() < 1e-2 * speech.max()


def test_breath_is_in_the_clean_file_where_the_table_says(folder, pairs):
    breaths = [p for p in of(pairs, 'faint') if p['kind'] == 'breath']
    assert breaths
    for p in breaths:
        clean, _ = sounds(folder, p)
        marked = clean[int(p['mark']):int(p['end'])]
        below = 20 * np.log10(level(clean, int(p['rate'])) / marked.std())
        assert 15 < below < 40
    assert not any(p['mark'] for p in pairs if p['kind'] != 'breath')


def test_a_warm_pair_ends_as_the_cold_one(folder, pairs):
    warm = of(pairs, 'studio-warm')
    assert len(warm) == len([i for i in range(COUNT) if i % 6 < 2])
    for p in warm:
        cold = next(q for q in pairs if q['name'] == p['name'].replace('-warm', ''))
        assert int(p['start']) == 8 * int(p['rate'])
        for a, b in zip(sounds(folder, p), sounds(folder, cold)):
            assert np.allclose(a[int(p['start']):][100:], b[100:], atol=1e-3)


def test_a_real_recording_has_no_clean_file(folder, pairs):
    for p in of(pairs, 'real'):
        assert (folder / 'out' / f"{p['name']}_noisy.flac").exists()
        assert not (folder / 'out' / f"{p['name']}_clean.flac").exists()


def test_an_echo_is_no_speech(folder):
    h = np.zeros(24000)
    h[12], h[12000] = 1, .3
    x = np.zeros(48000)
    x[1000] = 1
    wet, early = judge.in_room(x, h)
    assert wet[1012] == pytest.approx(1) and wet[13000] == pytest.approx(.3)
    assert early[1012] == pytest.approx(1) and abs(early[13000]) < 1e-9


def test_a_whisper_has_no_pitch():
    x = sound('voice', 48000, np.random.default_rng(0))
    y = judge.whispered(x, np.random.default_rng(1))
    line = lambda x: (np.abs(np.fft.rfft(x)) ** 2).max() / (np.abs(np.fft.rfft(x)) ** 2).sum()
    assert line(x) > 30 * line(y)
