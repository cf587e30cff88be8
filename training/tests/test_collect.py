"""Packages of toy sounds: noise is white, what the detector's stand-in hears as speech has nothing above 3 kHz."""
import sys

import numpy as np
import pytest
import soundfile
from scipy.signal import butter, correlate, resample_poly, sosfilt

from training.data import collect, prepare

RATE = prepare.RATE


def sound(seed, voice=False, hiss=0., seconds=1.):
    """Bursts of a tenth of a second; a voice's have pauses between, and hiss where they are loud."""
    rng = np.random.default_rng(seed)
    white = rng.uniform(-1, 1, (2, int(seconds * RATE)))
    gain = 10 ** -rng.uniform(0, .7, len(white[0]) * 10 // RATE).repeat(RATE // 10)
    if not voice:
        return .5 * gain * white[0]
    gain[np.arange(len(gain)) // (RATE // 10) % 3 == 2] = 0
    return sosfilt(butter(8, 2000, fs=RATE, output='sos'), gain * white[0]) + (gain * hiss + 1e-4) * white[1]


def detector():
    def heard(x):
        power = np.abs(np.fft.rfft(x)) ** 2
        return (power[:int(3000 / RATE * len(x))].sum() > .95 * power.sum()) * len(x) / RATE
    return heard


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, 'detector', detector)

    def run(package, files, *args, rates={}):
        """files {path: samples} as a package's, collected -> {name: samples at 48 kHz}, by pack"""
        for path, x in files.items():
            path, rate = tmp_path / 'packages' / package / 'usr/share' / path, rates.get(path, RATE)
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, resample_poly(x, rate // 16000, RATE // 16000), rate, 'PCM_24')
        out = tmp_path / 'out'
        monkeypatch.setattr(sys, 'argv', ['collect.py', str(tmp_path / 'packages'), str(out), *map(str, args)])
        collect.main()
        packs, names = prepare.read_index(out)
        sounds = {pack: collect.resampled(prepare.decoded(out, names, pack, 1) / 32768, prepare.rate_of(pack), RATE)
                  for pack in packs}
        return {pack: {s['name']: sounds[pack][s['start']:s['stop']] for s in of} for pack, of in packs.items()}
    return run


def begins_as(x, y):
    """x begins with what y begins with, to the sample."""
    n = RATE // 2
    return np.argmax(correlate(np.pad(x[:n], 50), y[:n], 'valid')) == 50


def test_noise_is_levelled_and_lies_where_the_index_says(run):
    files = {f'game/{i}.wav': sound(i) * gain for i, gain in enumerate([1, .1, .02])}
    taken = run('game', files)['noise']
    assert taken.keys() == {'debian/game/' + f for f in files}
    for f, x in files.items():
        y = taken['debian/game/' + f]
        assert begins_as(y, x)
        assert 20 * np.log10(prepare.level(y)) == pytest.approx(-24, abs=2)    # at 40 kbit/s white noise gets quieter
        assert len(x) <= len(y) <= len(x) + .06 * RATE


def test_noise_leaves_out(run):
    taken = run('game', {
        'game/a.wav': sound(0), 'game/near.wav': sound(0) * .3, 'game/other.wav': sound(1),
        'game/silent.wav': sound(2) * 1e-3,
        'game/short.wav': np.pad(sound(3, seconds=.1), RATE // 2), 'game/clipped.wav': np.clip(sound(4), -.1, .1),
        'game/low.wav': sound(5), 'game/scream.wav': sound(6), 'game/eric_matyas/1.wav': sound(7),
        'game/somebody.wav': sound(8, voice=True)}, rates={'game/near.wav': 32000, 'game/low.wav': 16000})
    assert taken.keys() == {'noise'}
    left = {n.split('/')[-1] for n in taken['noise']}
    assert left in ({'a.wav', 'other.wav'}, {'near.wav', 'other.wav'})


@pytest.mark.parametrize('path, voice', [
    ('a/sounds/codriver/Left.wav', True), ('a/units/grenadier_attack.wav', True), ('a/units/pig_ack4.wav', True),
    ('a/sounds/fr/1.wav', True), ('a/painting.wav', False), ('a/attack.wav', False), ('a/black.wav', False)])
def test_names_of_voices(path, voice):
    assert (collect.name_in_index('a', path, False) is None) == voice


@pytest.mark.parametrize('path, who', [
    ('a/b/c/crow_desc_el.ogg', 'tuxpaint-el'), ('a/b/c/3_desc_el.ogg', 'tuxpaint-el'), ('a/b/c/crow_desc.ogg', 'a/b/c'),
    ('a/b/c/3_pt.ogg', 'tuxpaint-pt'), ('a/b/c/crow.ogg', None), ('a/b/c/crow_desc_ro.ogg', None)])
def test_who_speaks_in_tuxpaint(path, who):
    assert collect.name_in_index('tuxpaint-stamps-default', path, True) == (who and 'deb-tuxpaint-stamps/' + who)


def test_speech_by_band_without_narrators_of_the_evaluation(run):
    files = {'klettres/de/full.wav': sound(0, voice=True, hiss=.03), 'klettres/de/wide.wav': sound(1, voice=True),
             'klettres/es/low.wav': sound(2, voice=True), 'klettres/fr/fr.wav': sound(3, voice=True),
             'klettres/hu/bang.wav': np.pad(sound(4), RATE // 2) + sound(7, seconds=2) * 1e-3,
             'klettres/nl/noisy.wav': sound(5, voice=True) + sound(6) * .3}
    taken = run('letters', files, '--speech', 'letters', rates={'klettres/es/low.wav': 32000})
    assert {pack: {*of} for pack, of in taken.items()} == {
        'speech_full': {'deb-letters/klettres/de'}, 'speech_wide': {'deb-letters/klettres/de',
                                                                    'deb-letters/klettres/es'}}
    for name, x, y in [('de', 'de/full', 'full'), ('de', 'de/wide', 'wide'), ('es', 'es/low', 'wide')]:
        y = taken['speech_' + y]['deb-letters/klettres/' + name]
        assert begins_as(y, files[f'klettres/{x}.wav'])
        assert 20 * np.log10(prepare.level(y)) == pytest.approx(-26, abs=.7)


@pytest.mark.parametrize('rate, pack', [(RATE, 'noise_0'), (16000, 'noise_wide_0')])
def test_no_noise_again(run, tmp_path, rate, pack):
    data = tmp_path / 'data'
    data.mkdir()
    soundfile.write(data / (pack + '.flac'), resample_poly(sound(2) * .2, rate // 16000, RATE // 16000), rate)
    (data / 'index.tsv').write_text('file\tstart_sample\tsamples\trate\tsource\tspeaker_or_clip\n'
                                    f'{pack}.flac\t0\t{rate}\t{rate}\ta\tb\n')
    taken = run('rain', {'2.wav': sound(2), '5.wav': sound(5)}, '--without', data)['noise']
    assert {*taken} == {'debian/rain/5.wav'}


def test_music_has_a_share(run):
    files = {f'{kind}/{i}.wav': sound(10 * len(kind) + i) for kind in ('music', 'rain') for i in range(6)}
    taken = run('game', files)['noise']
    music = sum('music' in n for n in taken)
    assert len(taken) - music == 6 and 1 <= music <= 2


def test_a_narrator_has_a_share(run, tmp_path, monkeypatch):
    monkeypatch.setitem(collect.MINUTES, 'speech', 1.5 / 60)
    files = {f'{who}/{i}.wav': sound(10 * i + len(who), voice=True) for who in ('a', 'bb') for i in range(5)}
    run('many', files, '--speech', 'many')
    speech = prepare.read_index(tmp_path / 'out')[0]['speech_wide']
    assert [s['name'] for s in speech] == ['deb-many/a'] * 2 + ['deb-many/bb'] * 2
