"""The scores that are not a library's."""
import contextlib
import types

import numpy as np
import pytest

evaluate = pytest.importorskip('training.evaluation.evaluate')
measures = pytest.importorskip('training.evaluation.measures')
RATE = 16000


@pytest.fixture
def clean():
    """Two seconds of noise, silent in its second and fourth quarter."""
    x = np.random.default_rng(0).standard_normal(2 * RATE) * .1
    x[RATE // 2:RATE] = x[3 * RATE // 2:] = 0
    return x


def test_a_cut_word_start_is_told_from_a_quieter_voice(clean):
    start = slice(RATE, RATE + RATE // 10)
    cut = clean.copy()
    cut[start] *= .5
    assert measures.onset(clean, cut, RATE) == pytest.approx(-6.02, abs=.05)
    assert measures.onset(clean, cut * .1, RATE) == pytest.approx(-6.02, abs=.05)
    assert measures.onset(clean, clean * .1, RATE) == pytest.approx(0, abs=.05)
    loud = cut.copy()
    loud[start] += np.random.default_rng(1).standard_normal(RATE // 10) * .1    # noise makes no word
    assert measures.onset(clean, loud, RATE) == pytest.approx(-6, abs=1.5)


def test_silence_is_scored(clean):
    scores = measures.measure(clean, clean, np.zeros(len(clean)), RATE)
    assert scores['pesq'] == 1 and np.isnan(scores['si_sdr']) and scores['estoi'] < .1


def test_what_is_left_of_noise_alone():
    noise = np.random.default_rng(0).standard_normal(RATE)
    scores = measures.measure(np.zeros(RATE), noise, noise * .01, RATE)
    assert scores['left'] == pytest.approx(-40, abs=.01) and np.isnan(scores['pesq'])


def test_distance_above_8_khz():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(48000)
    assert measures.lsd(x, x) == 0
    assert measures.lsd(x, x * .1) == pytest.approx(20, abs=.5)


@pytest.fixture
def vowel():
    """Two seconds of a voice of 200 Hz, its harmonics up to 7 kHz equally loud."""
    t = np.arange(2 * RATE) / RATE
    return sum(np.sin(2 * np.pi * 200 * k * t + k * k) for k in range(1, 36)) * .02


def band(x, low, high, gain):
    """x with what lies between two frequencies so many times as loud"""
    X = np.fft.rfft(x)
    hz = np.fft.rfftfreq(len(x), 1 / RATE)
    return np.fft.irfft(np.where((hz >= low) & (hz < high), X * gain, X), len(x))


def test_bins_of_speech_that_are_cut(vowel):
    clean = vowel * (np.arange(2 * RATE) > RATE // 2)
    noisy = clean + np.random.default_rng(0).standard_normal(len(clean)) * 1e-4
    share = lambda y: measures.cut(clean, noisy, y)
    assert share(noisy) == (0, 0)
    assert share(noisy * .7) == pytest.approx((0, 0), abs=2)
    assert share(noisy * .35) == pytest.approx((100, 100), abs=2)
    assert share(band(noisy, 4000, 8000, .1)) == pytest.approx((0, 100), abs=2)
    second = np.arange(2 * RATE) > 5 * RATE // 4        # half of the speech
    assert share(np.where(second, noisy * .1, noisy)) == pytest.approx((50, 50), abs=3)
    assert share(np.zeros(len(clean))) == (100, 100)
    loud = clean + np.random.default_rng(0).standard_normal(len(clean)) * 30
    assert np.isnan(measures.cut(clean, loud, clean * .1)).all()    # no speech dominates


def test_noise_between_harmonics(vowel):
    noise = np.random.default_rng(0).standard_normal(len(vowel)) * .02
    left = lambda y: measures.between(vowel, vowel + noise, y)
    assert left(vowel + noise) == pytest.approx(0, abs=.1)
    assert left(vowel) < -35                            # what the voice itself has there is no noise
    assert left(vowel + noise * .1) == pytest.approx(-20, abs=1)
    assert left(vowel + band(noise, 4000, 8000, 0)) == pytest.approx(0, abs=.1)
    assert np.isnan(measures.between(noise, noise + vowel, vowel))  # no voice, no harmonics


def test_pitch_is_found(vowel):
    power = np.abs(measures.bins(vowel, 1024, 256, size=2048)) ** 2
    assert np.median(measures.pitch(power)) == pytest.approx(200, abs=2)
    hiss = np.random.default_rng(0).standard_normal(RATE)
    assert not measures.pitch(np.abs(measures.bins(hiss, 1024, 256, size=2048)) ** 2).any()


def test_pauses_by_their_middle_and_their_worst_tenth(clean):
    noisy = clean + np.random.default_rng(1).standard_normal(len(clean)) * .01
    y = clean + (noisy - clean) * .1
    eighth = slice(RATE // 2, RATE // 2 + RATE // 8)
    y[eighth] = noisy[eighth]                           # an eighth of the pauses is as it was
    assert measures.pauses(clean, noisy, y, RATE) == pytest.approx((-20, 0), abs=.01)
    assert measures.pauses(clean, noisy, clean, RATE) == pytest.approx((-60, -60))
    assert np.isnan(measures.pauses(noisy, noisy, y, RATE)).all()


def test_sibilants_are_told_by_their_speech(vowel):
    low = band(vowel, 2500, 8000, 0)
    clean = low.copy()
    clean[RATE:RATE * 5 // 4] = band(np.random.default_rng(2).standard_normal(RATE // 4), 0, 4000, 0) * .1
    assert measures.sibilant(clean, clean) == pytest.approx(0, abs=.01)
    assert measures.sibilant(clean, band(clean, 3000, 8000, .5)) == pytest.approx(-6.02, abs=.05)
    noise = np.random.default_rng(3).standard_normal(len(clean)) * .05
    assert measures.sibilant(clean, clean + noise) == pytest.approx(0, abs=.5)
    assert np.isnan(measures.sibilant(low, low))


def test_faint_sounds_and_breath_are_told_from_loud_ones(clean):
    x = clean.copy()
    x[:RATE // 4] *= 10 ** (-30 / 20)                   # a breath
    gone = x.copy()
    gone[:RATE // 4] *= .1
    scores = measures.measure(x, x, gone, RATE, slice(0, RATE // 4))
    assert scores['breath'] == pytest.approx(-20, abs=.01) and scores['faint'] == pytest.approx(-20, abs=.01)
    scores = measures.measure(x, x, x * .5, RATE)
    assert np.isnan(scores['breath']) and scores['faint'] == pytest.approx(-6.02, abs=.01)


def test_what_surrounds_the_beginning_of_a_vowel(vowel):
    hiss = np.random.default_rng(5).standard_normal(len(vowel)) * 1e-3
    x = vowel.copy()
    start = RATE // 2
    x[:start] = x[RATE:RATE * 3 // 2] = 0
    x += hiss
    y = x.copy()
    for at in start, RATE * 3 // 2:
        y[at - RATE // 20:at] *= .1
        y[at:at + RATE // 20] *= .5
    before, after = measures.around_vowels(x, y, RATE)
    assert before == pytest.approx(-20, abs=4) and after == pytest.approx(-6, abs=1)
    assert measures.around_vowels(x, x, RATE) == pytest.approx((0, 0), abs=1e-6)
    assert np.isnan(measures.around_vowels(vowel, vowel, RATE)).all()


def test_what_is_left_of_events_in_pauses(clean):
    rng = np.random.default_rng(6)
    noise = np.full(len(clean), 1e-4) * rng.standard_normal(len(clean))
    blow = slice(RATE * 3 // 4, RATE * 3 // 4 + RATE // 25)
    noise[blow] += rng.standard_normal(RATE // 25) * .05
    noisy, y = clean + noise, clean + noise * .01
    y[blow] += noise[blow] * .09                        # a tenth of it
    assert measures.events(clean, noisy, y, RATE) == pytest.approx(-20, abs=.1)


def test_the_first_second_is_scored_alone():
    rng = np.random.default_rng(7)
    t = np.arange(4 * RATE) / RATE
    x = rng.standard_normal(len(t)) * np.maximum(0, np.sin(2 * np.pi * 3 * t)) * .1
    x[:RATE // 2] = 0
    late, early = x.copy(), x.copy()
    late[2 * RATE:] += rng.standard_normal(2 * RATE) * .1
    early[:2 * RATE] += rng.standard_normal(2 * RATE) * .1
    assert measures.first_second(x, late, RATE) == pytest.approx(measures.first_second(x, x, RATE), abs=.01)
    assert measures.first_second(x, early, RATE) < 3
    assert measures.first_second(x, np.zeros(len(x)), RATE) == 1


def test_where_pesq_hears_no_speech(clean, monkeypatch):
    def pesq(rate, x, y, band):
        if min(x.std(), y.std()) < 1e-3:
            raise measures.NoUtterancesError
        return 3.
    monkeypatch.setattr(measures, 'pesq', pesq)
    assert measures.rated(RATE, clean, clean * .5) == 3
    assert measures.rated(RATE, clean, clean * 1e-3) == 1
    assert np.isnan(measures.rated(RATE, clean * 1e-3, clean))


def test_a_recording_without_a_clean_file_gets_what_needs_none(tmp_path, clean, monkeypatch):
    soundfile = pytest.importorskip('soundfile')
    soundfile.write(tmp_path / 'real_000_noisy.flac', clean, RATE)
    monkeypatch.setattr(evaluate, 'distillmos', lambda: lambda x: dict(distillmos=float(len(x))))
    monkeypatch.setattr(evaluate.distillmos, '__name__', 'distillmos', raising=False)
    a = types.SimpleNamespace(pairs=tmp_path, enhanced='noisy', delay=0, dnsmos=False, distillmos=True)
    row = evaluate.score(a, dict(name='real_000', rate=RATE, start=100))
    assert row['distillmos'] == len(clean) - 100 and np.isnan(row['pesq'])


def write_pairs(folder, names, clean):
    soundfile = pytest.importorskip('soundfile')
    folder.mkdir()
    lines = ['name\trate\tsnr_db\tstart']
    for i, name in enumerate(names):
        noisy = clean + np.random.default_rng(i).standard_normal(len(clean)) * .03
        for part, x in ('clean', clean), ('noisy', noisy):
            soundfile.write(folder / f'{name}_{part}.flac', x, RATE)
        lines.append(f"{name}\t{RATE}\t{5 * i}\t0")
    (folder / 'pairs.tsv').write_text('\n'.join(lines) + '\n')


def run_evaluate(monkeypatch, capsys, *arguments):
    monkeypatch.setattr('sys.argv', ['evaluate.py', *map(str, arguments)])
    evaluate.main()
    return capsys.readouterr().out


def test_the_same_clips_are_compared(tmp_path, clean, monkeypatch, capsys):
    pairs, table = tmp_path / 'pairs', tmp_path / 'noisy.tsv'
    write_pairs(pairs, ['wide_0', 'full_0', 'full_1'], clean)
    out = noisy = run_evaluate(monkeypatch, capsys, pairs, 'noisy', '--out', table)
    row = lambda text, key: next(line for line in text.splitlines() if line.startswith(key)).split()[1:]
    assert row(out, 'clips') == ['3', '1', '1', '2', '1', '1', '1']     # all, below 2.5 dB, two kinds, three SNRs
    out = run_evaluate(monkeypatch, capsys, pairs, 'clean', '--against', table)
    over = out[out.index('each clip against itself'):]
    assert row(over, 'pause')[0] == '-60.000±0.000' and float(row(over, 'pesq')[0].split('±')[0]) > .5
    assert run_evaluate(monkeypatch, capsys, pairs, table).startswith(noisy[:noisy.index('worst')])
    table.write_text('\n'.join(table.read_text().splitlines()[:-1]))
    with pytest.raises(SystemExit):
        run_evaluate(monkeypatch, capsys, pairs, 'clean', '--against', table)
    assert 'not of the clips' in capsys.readouterr().err


def test_special_cases_are_made_of_pairs_that_have_a_clean_file(tmp_path, clean):
    cases = pytest.importorskip('training.evaluation.cases')
    write_pairs(tmp_path / 'pairs', ['a_0', 'real_0'], clean)
    (tmp_path / 'pairs' / 'real_0_clean.flac').unlink()
    assert [r['name'] for r, _, _, _ in cases.read_pairs(tmp_path / 'pairs')] == ['a_0']


def test_the_gate_opens_for_speech_and_closes_for_noise(clean):
    noisy = clean + np.random.default_rng(2).standard_normal(len(clean)) * .001
    y = evaluate.gate(noisy, RATE)
    assert np.allclose(y[:RATE // 2], noisy[:RATE // 2])
    assert np.abs(y[RATE * 3 // 5:RATE * 9 // 10]).max() < 1e-3


def test_recordings_come_at_one_level_after_silence(tmp_path):
    soundfile = pytest.importorskip('soundfile')
    for i, rate in enumerate((11025, 48000)):
        tone = np.sin(np.arange(rate) * 2 * np.pi * 300 / rate)
        soundfile.write(tmp_path / f'{i}.wav', tone[:, None].repeat(2, 1) * .1 ** i, rate)
    for name, x in pytest.importorskip('training.evaluation.cases').recordings(tmp_path):
        assert len(x) == pytest.approx(1.6 * 48000, abs=9) and not x[:14400].any() and not x[-14400:].any()
        assert 20 * np.log10(x[20000:60000].std()) == pytest.approx(-26, abs=.1)


def test_peers_come_without_their_delay():
    peers = pytest.importorskip('training.evaluation.peers')

    @contextlib.contextmanager
    def late():
        line = np.zeros(1000, np.float32)

        def process(x, y):
            nonlocal line
            line = np.concatenate([line, x])
            y[:], line = line[:len(x)], line[len(x):]
        yield 480, 1000, process

    x = np.random.default_rng(3).standard_normal(4801).astype(np.float32)
    assert np.array_equal(peers.enhance(late, x), x)


def test_a_network_over_spectra_is_run_frame_by_frame():
    peers = pytest.importorskip('training.evaluation.peers')

    class Session:
        """Gives each frame as it came and counts them in its state."""
        def get_inputs(self):
            return [types.SimpleNamespace(name='spectrum', shape=[1, 257, 1, 2]),
                    types.SimpleNamespace(name='seen', shape=[1])]

        def run(self, outputs, inputs):
            self.seen = inputs['seen']
            return inputs['spectrum'], inputs['seen'] + 1

    x = np.random.default_rng(3).standard_normal(4801)
    for peer, hop in (peers.gtcrn, 256), (peers.ul_unas, 256), (peers.fastenhancer_m, 160):
        session = Session()
        assert peers.enhance(lambda: peer(session), x) == pytest.approx(x, abs=1e-5)
        assert session.seen == (len(x) + 512 - hop) // hop


def test_the_differentiable_dnsmos_is_the_published_one():
    torch, mos = pytest.importorskip('torch'), pytest.importorskip('training.loss.dnsmos')
    run = pytest.importorskip('speechmos.dnsmos').run
    pytest.importorskip('onnx')
    t = np.arange(int(9.01 * 48000)) / 48000
    x = .2 * np.sin(2 * np.pi * 150 * t + 3 * np.sin(9 * t)) * np.sin(3 * t) ** 2 + .01 * np.sin(2 * np.pi * 2000 * t)
    y = torch.tensor(x, dtype=torch.float32)[None].requires_grad_()
    scores = mos.Dnsmos('cpu')(y)
    theirs = run(x[::3].astype(np.float32), sr=16000)   # nothing in it above 8 kHz
    assert scores[0].tolist() == pytest.approx([theirs[k + '_mos'] for k in ('sig', 'bak', 'ovrl')], abs=.02)
    scores[0, 2].backward()
    assert y.grad.isfinite().all() and y.grad.abs().max() > 0


def test_thuds_of_the_cases_are_low_and_gone_soon():
    x = pytest.importorskip('training.evaluation.cases').thuds(5 * RATE, RATE, 0)
    power = np.abs(np.fft.rfft(x)) ** 2
    assert power[:600 * 5].sum() > .85 * power.sum()
    e = (x.reshape(-1, RATE // 20) ** 2).mean(1)
    assert np.median(e) < 1e-3 * e.max() and (e > .1 * e.max()).sum() >= 3


def test_a_caller_comes_by_telephone_after_another_voice():
    cases = pytest.importorskip('training.evaluation.cases')
    rng = np.random.default_rng(4)
    pairs = [(dict(speech=f'{rate}-{i}', noise='', snr_db='5'), rate, *rng.standard_normal((2, 2 * rate)) * .1)
             for rate in (16000, 48000) for i in range(2)]
    found = [c for c in cases.cases(pairs, [], {}, 2) if c[0] == 'caller']
    assert len(found) == 2
    for _, rate, _, clean, noisy, _, _ in found:
        assert rate == 48000 and len(clean) == len(noisy) - len(clean) == 96000
        power = lambda x: np.abs(np.fft.rfft(x * np.hanning(len(x)))) ** 2
        before, after, caller = power(noisy[:96000]), power(noisy[96000:]), power(clean)
        high, low = slice(2 * 5000, None), slice(0, 2 * 3000)
        assert before[high].mean() > .1 * before[low].mean()
        assert max(x[high].mean() / x[low].mean() for x in (after, caller)) < 1e-4
