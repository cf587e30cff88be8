"""Mixtures of an owner and other voices, of toy recordings, and what is measured of them."""
import argparse
import csv
import os
import sys

import numpy as np
import pytest

soundfile = pytest.importorskip('soundfile')
talkers = pytest.importorskip('training.evaluation.talkers')
owner = pytest.importorskip('training.evaluation.owner')
from training.data.prepare import for_judging, level

RATE = 16000
COUNT = 6
ROOM = next(f'{i}' for i in range(100) if for_judging(f'house/{i}'))
HEARD = 'SPEAKER9649'                                   # recordings.tsv.xz names it
PITCH = {'speechocean762/SPEAKER1': 110, 'speechocean762/SPEAKER2': 120, 'speechocean762/SPEAKER3': 220,
         'speechocean762/SPEAKER4': 230, f'speechocean762/{HEARD}': 115, 'cv-fa/1': 100, 'cv-fa/2': 130, 'cv-fa/3': 210,
         'cv-fa/4': 230}


def voice(hz, seed, seconds=3, rate=RATE):
    """Syllables of many harmonics after a quiet start, and a soft noise."""
    rng, t = np.random.default_rng(seed), np.arange(seconds * rate) / rate
    x = sum(np.sin(2 * np.pi * k * hz * t + rng.uniform(0, 6)) / k for k in range(1, 20))
    return .05 * x * (np.sin(2 * np.pi * 2 * t + seed) > 0) * (t > .4) + 1e-4 * rng.standard_normal(len(t))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    top, rng = tmp_path_factory.mktemp('talkers'), np.random.default_rng(0)
    for speaker, hz in PITCH.items():
        (top / 'rec/speech' / speaker).mkdir(parents=True)
        for i in range(5):
            soundfile.write(top / 'rec/speech' / speaker / f'{i}.wav', voice(hz, i), RATE)
    for noise in ('noise/sefire/-', 'noise/kitchen20-own/-', 'music/sefire/-'):
        (top / 'rec' / noise).mkdir(parents=True)
        soundfile.write(top / 'rec' / noise / 'a.wav', .1 * rng.standard_normal(3 * RATE), RATE)
    h = np.zeros(24000)
    h[12], h[12000] = .9, .7
    soundfile.write(top / 'rooms.flac', h, 48000)
    (top / 'rooms.tsv').write_text(f'room\tsource\tplace\n0\thouse\t{ROOM}\n')
    argv, sys.argv = sys.argv, ['', str(top / 'rooms'), str(top / 'out'), str(top / 'rec'), '--count', str(COUNT)]
    talkers.main()
    sys.argv = argv
    with open(top / 'out/pairs.tsv') as f:
        return top / 'out', list(csv.DictReader(f, delimiter='\t'))


def sounds(folder, row):
    return [soundfile.read(folder / f"{row['name']}_{part}.flac")[0] for part in ('clean', 'others', 'noisy',
                                                                                 'enrolment')]


def of(pairs, *domains):
    return [p for p in pairs if p['name'].rsplit('_', 1)[0] in domains]


def test_the_microphone_hears_the_owner_and_the_others_as_far_below(folder):
    out, pairs = folder
    assert len(pairs) == COUNT * len(talkers.DOMAINS)
    for p in of(pairs, 'same', 'different', 'similar', 'several', 'whisper', 'microphone'):
        clean, others, noisy, _ = sounds(out, p)
        assert np.allclose(clean + others, noisy, atol=2e-4)
        below = 20 * np.log10(level(clean, RATE) / level(others, RATE))
        assert below == pytest.approx(float(p['snr_db']), abs=1)
    for p in of(pairs, 'noise'):
        assert p['voices'] == '0' and not (out / f"{p['name']}_others.flac").exists()


def test_who_speaks(folder):
    _, pairs = folder
    assert not any(HEARD in p[k] for p in pairs for k in ('speech', 'noise', 'enrolment'))
    hz = lambda path: PITCH[path.rsplit('/', 1)[0]]
    for p in pairs:
        if p['voices'] != '0':
            assert p['speech'].rsplit('/', 1)[0] != p['noise'].rsplit('/', 1)[0]
            assert (p['english'] == '1') == ('speechocean' in p['speech']) == ('speechocean' in p['noise'])
    for p in of(pairs, 'different'):
        assert abs(hz(p['speech']) - hz(p['noise'])) > 50
    for p in of(pairs, 'similar'):
        if hz(p['speech']) in (110, 120):
            assert hz(p['noise']) in (110, 120)


def test_an_enrolment_is_of_the_owner_and_of_other_recordings(folder):
    out, pairs = folder
    for p in pairs:
        recordings = p['enrolment'].split(';')
        assert p['speech'] not in recordings
        assert {r.rsplit('/', 1)[0] for r in recordings} == {p['speech'].rsplit('/', 1)[0]}
        seconds = soundfile.info(out / f"{p['name']}_enrolment.flac").duration
        assert 5 < seconds <= 30


def test_the_owner_is_silent_where_only_others_speak(folder):
    out, pairs = folder
    warm = 0
    for p in of(pairs, 'others'):
        clean, others, noisy, _ = sounds(out, p)
        start = int(p['start'])
        assert len(clean) - start == talkers.ALONE * int(p['rate'])
        assert not clean[start + 100:].any() and not others[:max(0, start - 100)].any()
        assert np.allclose(clean + others, noisy, atol=2e-4)
        warm += start > 0
    assert warm == 4


@pytest.fixture
def parts():
    return np.pad([voice(110, 1), voice(190, 2)], ((0, 0), (0, RATE // 10)))


def test_levels_of_the_parts_of_an_output(parts):
    own, other = parts
    noise = np.random.default_rng(0).standard_normal(len(own)) * .3 * own.std()
    for y, expected in ((own + .1 * other, (0, -20)), (.5 * own + other, (-6.02, 0)), (own, (0, -60)),
                        (0 * own, (-60, -60)), (-other, (-60, 0))):
        assert owner.remaining(parts, y) == pytest.approx(np.array(expected), abs=.1)
    left = owner.remaining(parts, own + .1 * other + noise)     # what is in neither does not count
    assert left == pytest.approx(np.array((0, -20)), abs=2)
    assert owner.remaining(parts[:1], .1 * own) == pytest.approx(-20, abs=.1)


def test_a_delay_is_compensated(parts):
    noisy = parts.sum(0)
    for delay in (-300, 0, 900):
        y = owner.aligned(np.roll(parts[0] + .1 * parts[1], delay), noisy)
        assert owner.remaining(parts, y) == pytest.approx(np.array((0, -20)), abs=.1)
    assert not owner.aligned(0 * noisy, noisy).any()


def test_what_is_accepted_counts_where_the_owner_is_silent(parts):
    own, other = np.zeros(20 * 1600), np.ones(20 * 1600) * .1
    own[:5 * 1600] = .2
    y = own + other
    y[10 * 1600:] *= .1
    alone, heard = owner.accepted(own, other, y)
    assert alone.sum() == 15 and heard.sum() == 5


def test_words_lost_and_leaked():
    assert owner.understood('one two three four', 'five six', 'one three six') == (50, 50)
    assert owner.understood('one two', 'two three', 'one two') == (0, 0)
    assert owner.understood('one two', '', '') == (100, pytest.approx(np.nan, nan_ok=True))
    assert np.isnan(owner.understood('', 'one', 'one')[0])


def test_a_row_of_the_owner_alone_and_of_others_alone(folder, monkeypatch):
    out, pairs = folder
    monkeypatch.setattr(owner, 'words', lambda x: 'word')
    how = argparse.Namespace(pairs=str(out), enhanced='noisy', delay=0)
    noise, others = (owner.score(how, of(pairs, d)[0]) for d in ('noise', 'others'))
    assert noise['owner'] == pytest.approx(0, abs=1) and np.isnan(noise['others']) and noise['pesq'] > 1
    assert others['others'] == pytest.approx(0, abs=.1) and others['accepted'] == 100 == others['later']
    assert np.isnan(others['owner']) and np.isnan(others['pesq']) and others['text'] == 'word'


def test_a_table_of_domains_and_of_where_the_other_speaks(folder, monkeypatch, capsys, tmp_path):
    out, _ = folder
    monkeypatch.setattr(owner, 'words', lambda x: 'one two')
    monkeypatch.setattr('sys.argv', ['', str(out), str(tmp_path), 'noisy', '--half', 'sealed', '--only', 'same',
                                     'noise'])
    for _ in range(2):                                  # the second time from what the first kept
        owner.main()
        shown = capsys.readouterr().out
        assert [line.split('  ')[0] for line in shown.splitlines() if '(' in line] == [
            'same (3)', 'one beside (2)', 'one across (1)', 'noise (3)']
    assert sorted(os.listdir(tmp_path)) == ['owner-noisy.tsv', 'owner-said.tsv']
