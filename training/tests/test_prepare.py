"""Packs of toy audio: every segment is one constant, so that what a pack holds can be read off it."""
import subprocess
import sys

import numpy as np
import pytest
import soundfile

import prepare


def names(kind, held, count):
    """`count` names that the hash holds out, or does not."""
    segments = [dict(name=f'place/{kind}{i}', start=0, stop=prepare.RATE) for i in range(400)]
    out = prepare.held_out(kind, segments)
    return [s['name'] for s in segments if (s['name'] in out) == held][:count]


def write(folder, clips):
    """clips [(pack, name, value)]: three seconds each, in FLAC, one file a pack."""
    folder.mkdir()
    rows = ['file\tstart_sample\tsamples\trate\tsource\tspeaker_or_clip']
    for pack in sorted({c[0] for c in clips}):
        rate = 16000 if 'wide' in pack else 48000
        of = [c for c in clips if c[0] == pack]
        for i, (_, name, value) in enumerate(of):
            rows.append(f'{pack}_0.flac\t{i * 3 * rate}\t{3 * rate}\t{rate}\t' + name.replace('/', '\t'))
        soundfile.write(folder / f'{pack}_0.flac', np.repeat([c[2] for c in of], 3 * rate), rate)
    (folder / 'index.tsv').write_text('\n'.join(rows) + '\n')


def held_in(pack):
    """The constants in a pack, but for where a resampler goes from one to the next."""
    x = np.fromfile(pack, np.int16)
    return {round(v / 32768, 1) for v in x[np.flatnonzero(np.abs(np.diff(x.astype(int))) == 0)]}


@pytest.fixture
def packed(tmp_path):
    train, dev = names('noise', False, 2), names('noise', True, 1)
    write(tmp_path / 'data', [('noise', train[0], .1), ('noise', train[1] + 'scream', .2), ('noise', dev[0], .3),
                              ('speech_wide', names('speech', False, 1)[0], .4), ('speech_wide', names('speech', True, 1)[0], .5)])
    write(tmp_path / 'more', [('noise', dev[0] + '?', .6), ('noise', 'elsewhere/screams', .7)])

    def pack(*args):
        out = tmp_path / 'packed'
        subprocess.run([sys.executable, prepare.__file__, str(tmp_path / 'data'), str(out), '--jobs', '2', *args], check=True)
        return out
    return pack


def test_what_is_held_out_is_in_no_pack(packed):
    out = packed()
    assert held_in(out / 'noise.i16') == {.1, .2}
    assert held_in(out / 'speech_wide.i16') == {.4}
    pairs = (out / 'dev/pairs.tsv').read_text().splitlines()
    assert len(pairs) == 25 and all(p.endswith(names('noise', True, 1)[0]) for p in pairs[1:])


def test_what_is_packed_often_is_there_three_times(packed):
    once = (packed() / 'speech_wide.i16').stat().st_size
    often = packed('--often', 'speech|noise')
    assert (often / 'speech_wide.i16').stat().st_size == 3 * once
    assert (often / 'noise.i16').stat().st_size == 2 * once


def test_more_is_for_training_alone(packed, tmp_path):
    before = (packed() / 'dev/pairs.tsv').read_text()
    out = packed('--spoken', 'scream', '--more', str(tmp_path / 'more'))
    assert held_in(out / 'noise.i16') == {.1, .6}
    assert (out / 'dev/pairs.tsv').read_text() == before


def test_more_of_what_is_not_there_is_named(packed, tmp_path):
    write(tmp_path / 'full', [('speech_full', 'some/voice', .6)])
    out = packed()
    before = (out / 'noise.i16').read_bytes()
    run = subprocess.run([sys.executable, prepare.__file__, str(tmp_path / 'data'), str(out), '--more', str(tmp_path / 'full')], capture_output=True, text=True)
    assert run.returncode == 2 and f"{tmp_path / 'full'}: speech_full: not in" in run.stderr
    assert (out / 'noise.i16').read_bytes() == before


def test_too_little_to_hold_out_is_packed_all_the_same(tmp_path):
    write(tmp_path / 'data', [('noise', names('noise', False, 1)[0], .1), ('speech_wide', names('speech', True, 1)[0], .5)])
    run = subprocess.run([sys.executable, prepare.__file__, str(tmp_path / 'data'), str(tmp_path / 'out')], check=True, capture_output=True, text=True)
    assert 'no development pairs: of so few names the hash holds out no noise' in run.stdout
    assert held_in(tmp_path / 'out/noise.i16') == {.1}
