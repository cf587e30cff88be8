"""Packs of toy audio: every segment is one constant, so that what a pack holds can be read off it."""
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from training.data import prepare

FLOOR = {out: next(f'floor-x/{i}' for i in range(99) if prepare.for_judging(f'floor-x/{i}') == out)
         for out in (False, True)}


def write(folder, clips):
    """clips [(pack, name, value)]: three seconds each, in FLAC, one file a pack."""
    folder.mkdir()
    rows = ['file\tstart_sample\tsamples\trate\tsource\tspeaker_or_clip']
    for pack in sorted({c[0] for c in clips}):
        rate = prepare.rate_of(pack)
        of = [c for c in clips if c[0] == pack]
        for i, (_, name, value) in enumerate(of):
            rows.append(f'{pack}_0.flac\t{i * 3 * rate}\t{3 * rate}\t{rate}\t' + name.replace('/', '\t'))
        soundfile.write(folder / f'{pack}_0.flac', np.repeat([c[2] for c in of], 3 * rate), rate)
    (folder / 'index.tsv').write_text('\n'.join(rows) + '\n')


def held_in(pack):
    return {round(v / 32768, 1) for v in np.unique(np.fromfile(pack, np.int16))}


@pytest.fixture
def run(tmp_path):
    def run(*args):
        out = tmp_path / 'packed'
        subprocess.run([sys.executable, '-m', prepare.__name__, str(out), '--jobs', '2', *map(str, args)], check=True)
        return out
    return run


@pytest.fixture
def data(tmp_path):
    write(tmp_path / 'data', [('noise', 'a/rain', .1), ('noise', 'a/scream', .2), ('noise_wide', FLOOR[False], .3),
                              ('noise_wide', FLOOR[True], .4), ('speech_wide', 'b/c', .5), ('speech_full', 'b/d', .6)])
    return tmp_path / 'data'


def test_packs_have_their_own_rates_and_all_that_training_may_hear(run, data):
    out = run(data, '--spoken', 'scream|/d')
    assert held_in(out / 'noise.i16') == {.1}
    assert held_in(out / 'noise_wide.i16') == {.3}
    assert held_in(out / 'speech_wide.i16') == {.5} and held_in(out / 'speech_full.i16') == {.6}
    assert (out / 'speech_wide.i16').stat().st_size == 2 * 3 * 16000
    assert (out / 'speech_full.i16').stat().st_size == 2 * 3 * 48000


def test_song_and_laughter_are_packs_of_their_own(run, tmp_path):
    write(tmp_path / 'data', [('speech_wide', 'a/b', .1), ('voice_full', 'c/laugh', .2), ('voice_wide', 'c/song', .3)])
    out = run(tmp_path / 'data', '--spoken', 'laugh')
    held = {pack: held_in(out / f'{pack}.i16') for pack in ('speech_wide', 'voice_full', 'voice_wide')}
    assert held == dict(speech_wide={.1}, voice_full={.2}, voice_wide={.3})


def test_what_is_packed_often_is_there_three_times(run, data):
    out = run(data, '--often', 'b|a')
    assert (out / 'speech_wide.i16').stat().st_size == 3 * 2 * 3 * 16000
    assert (out / 'noise.i16').stat().st_size == 2 * 2 * 3 * 48000


def test_events_are_noise_and_a_pack_of_their_own(run, data):
    out = run(data, '--events', 'rain')
    assert held_in(out / 'events.i16') == {.1} and held_in(out / 'noise.i16') == {.1, .2}
    assert np.fromfile(out / 'noise_starts.i64', np.int64).tolist() == [0, 3 * 48000]


def test_what_was_coded_lies_apart(run, data, tmp_path):
    write(tmp_path / 'more', [('noise', 'e/f', .7)])
    write(tmp_path / 'coded', [('noise', 'g/h', .8), ('speech_full', 'g/i', .9)])
    out = run(data, tmp_path / 'more', '--coded', tmp_path / 'coded')
    assert held_in(out / 'noise.i16') == {.1, .2, .7} and held_in(out / 'noise_coded.i16') == {.8}
    assert held_in(out / 'speech_full.i16') == {.6} and held_in(out / 'speech_full_coded.i16') == {.9}


def test_rooms_to_judge_with_are_left_out(run, data, tmp_path):
    places = [f'place{i}' for i in range(24)]
    judged = [prepare.for_judging('aachen/' + p) for p in places]
    assert 0 < sum(judged) < 24
    soundfile.write(data / 'rooms_full.flac', np.repeat(np.arange(24) / 100, prepare.ROOM), 48000)
    (data / 'rooms_full.tsv').write_text('room\tsource\tplace\n'
                                         + ''.join(f'{i}\taachen\t{p}\n' for i, p in enumerate(places)))
    (tmp_path / 'more').mkdir()
    (tmp_path / 'more/index.tsv').write_text('file\tstart_sample\tsamples\trate\tsource\tspeaker_or_clip\n')
    soundfile.write(tmp_path / 'more/rooms_full.flac', np.full(prepare.ROOM, .5), 48000)
    rooms = np.fromfile(run(data, tmp_path / 'more') / 'rooms_full.i16', np.int16).reshape(-1, prepare.ROOM)
    assert [round(r[0] / 327.68) for r in rooms] == [i for i in range(24) if not judged[i]] + [50]
