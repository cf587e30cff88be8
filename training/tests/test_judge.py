"""Pairs to judge by, of toy recordings."""
import csv
import itertools
import subprocess
import sys

import numpy as np
import pytest

soundfile = pytest.importorskip('soundfile')
judge = pytest.importorskip('judge')
from prepare import for_judging, level

NUMBERS = [f'{i}' for i in range(100)]
JUDGED = [n for n in NUMBERS if for_judging('house/' + n)][:2]
OTHERS = [n for n in NUMBERS if not for_judging('house/' + n)][:2]
FLOORS = [n for n in NUMBERS if for_judging('floor-phone/' + n)][:1]


def tone(hz, seconds, rate):
    return np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate) * .1


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    top, rng = tmp_path_factory.mktemp('judge'), np.random.default_rng(0)
    for path, rate in ('speech/near/ann', 48000), ('speech/far/bob', 16000), ('noise/road/-', 44100), ('noise/old/-',
                                                                                                       16000):
        (top / path).mkdir(parents=True)
        for i in range(3):
            x = np.append(tone(200 + 50 * i, 1.5, rate),
                          np.zeros(rate // 4)) if 'speech' in path else rng.standard_normal(2 * rate) * .1
            soundfile.write(top / path / f'0000a{i}_take_{i}.wav', x, rate)
    rooms = np.zeros((4, 24000))
    rooms[:, 12] = .9
    rooms[:, 12000] = .3                                # an echo after a quarter of a second
    soundfile.write(top / 'rooms.flac', rooms.ravel(), 48000)
    (top / 'rooms.tsv').write_text('room\tsource\tplace\n'
                                   + ''.join(f'{i}\thouse\t{n}\n' for i, n in enumerate(JUDGED + OTHERS)))
    soundfile.write(top / 'floors.opus', rng.standard_normal(16000 * 6) * .01, 16000, format='OGG', subtype='OPUS')
    (top / 'floors.tsv').write_text('file\tstart_sample\tsamples\trate\tsource\tclip\n'
                                    + ''.join(f'floors.opus\t{i * 48000}\t40000\t16000\t{s}\t{FLOORS[0]}\n'
                                              for i, s in enumerate(['floor-phone', 'street'])))
    return top


def made(folder, out, *options):
    subprocess.run([sys.executable, judge.__file__, folder, folder / 'rooms', folder / 'floors', out, *options],
                   check=True)
    with open(out / 'pairs.tsv') as f:
        return list(csv.DictReader(f, delimiter='\t'))


@pytest.fixture(scope='module')
def pairs(folder):
    return made(folder, folder / 'out', '--count', '14')


def sounds(folder, row):
    return [soundfile.read(folder / 'out' / f"{row['name']}_{part}.flac")[0] for part in ('clean', 'noisy')]


def test_the_same_folders_make_the_same_pairs(folder, pairs):
    made(folder, folder / 'again', '--count', '2')
    for path in (folder / 'again').glob('*.flac'):
        assert path.read_bytes() == (folder / 'out' / path.name).read_bytes()
    made(folder, folder / 'other', '--count', '1', '--seed', '1')
    name = 'full-cold_000_noisy.flac'
    assert (folder / 'other' / name).read_bytes() != (folder / 'out' / name).read_bytes()


def test_every_second_pair_is_warm_and_some_are_both(folder, pairs):
    names = {p['name'] for p in pairs}
    assert names == {f'{band}-{form}_{i:03}' for band, i in itertools.product(('full', 'wide'), range(14))
                     for form in (('warm',) if i % 2 else ('cold', 'warm') if i % 6 == 0 else ('cold',))}
    for p in pairs:
        seconds = len(sounds(folder, p)[0]) / int(p['rate'])
        assert (seconds, int(p['start']) / int(p['rate'])) == ((15.5, 10) if 'warm' in p['name'] else (5.5, 0))
    for cold, warm in ((n, n.replace('cold', 'warm')) for n in names if n.replace('cold', 'warm') in names - {n}):
        for a, b in zip(*(sounds(folder, next(p for p in pairs if p['name'] == n)) for n in (cold, warm))):
            assert np.array_equal(a, b[-len(a):])


def test_levels_of_noise_are_as_the_table_says(folder, pairs):
    for p in pairs:
        clean, noisy = (x[int(p['start']):] for x in sounds(folder, p))
        if not p['room']:
            at48 = np.repeat(clean, 48000 // int(p['rate']))
            snr = 20 * np.log10(level(at48) / (noisy - clean).std())
            # of what is brought to 16 kHz the noise above 8 kHz is gone
            assert float(p['snr_db']) - .3 < snr < float(p['snr_db']) + (.3 if 'full' in p['name'] else 5)


def test_nothing_but_what_is_for_judging(pairs):
    assert {p['room'] for p in pairs} <= {''} | {'house/' + n for n in JUDGED}
    floors = [p for p in pairs if p['noise'].startswith('floor')]
    assert {p['noise'] for p in floors} == {'floor/floor-phone/' + FLOORS[0]}
    assert all('wide' in p['name'] and float(p['snr_db']) >= 10 for p in floors)
    full = [p for p in pairs if 'full' in p['name']]
    assert {p['speech'] for p in full} == {'near/ann'} and {p['noise'] for p in full} == {'road/take'}


def test_an_echo_is_no_speech(folder):
    h = np.zeros(24000)
    h[12], h[12000] = 1, .3
    x = np.zeros(48000)
    x[1000] = 1
    wet, early = judge.in_room(x, h)
    assert wet[1012] == pytest.approx(1) and wet[13000] == pytest.approx(.3)
    assert early[1012] == pytest.approx(1) and abs(early[13000]) < 1e-9
