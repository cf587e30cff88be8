"""The scores that are not a library's."""
import contextlib

import numpy as np
import pytest

evaluate = pytest.importorskip('evaluate')
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
    assert evaluate.onset(clean, cut, RATE) == pytest.approx(-6.02, abs=.05)
    assert evaluate.onset(clean, cut * .1, RATE) == pytest.approx(-6.02, abs=.05)
    assert evaluate.onset(clean, clean * .1, RATE) == pytest.approx(0, abs=.05)
    loud = cut.copy()
    loud[start] += np.random.default_rng(1).standard_normal(RATE // 10) * .1    # noise makes no word
    assert evaluate.onset(clean, loud, RATE) == pytest.approx(-6, abs=1.5)


def test_silence_is_scored(clean):
    scores = evaluate.score(clean, clean, np.zeros(len(clean)), RATE, None)
    assert scores['pesq'] == 1 and np.isnan(scores['si_sdr']) and scores['estoi'] < .1


def test_what_is_left_of_noise_alone():
    noise = np.random.default_rng(0).standard_normal(RATE)
    scores = evaluate.score(np.zeros(RATE), noise, noise * .01, RATE, None)
    assert scores['left'] == pytest.approx(-40, abs=.01) and np.isnan(scores['pesq'])


def test_distance_above_8_khz():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(48000)
    assert evaluate.lsd(x, x) == 0
    assert evaluate.lsd(x, x * .1) == pytest.approx(20, abs=.5)


def test_the_gate_opens_for_speech_and_closes_for_noise(clean):
    noisy = clean + np.random.default_rng(2).standard_normal(len(clean)) * .001
    y = evaluate.gate(noisy, RATE)
    assert np.allclose(y[:RATE // 2], noisy[:RATE // 2])
    assert np.abs(y[RATE * 3 // 5:RATE * 9 // 10]).max() < 1e-3


def test_recordings_come_at_one_level_after_silence(tmp_path):
    soundfile = pytest.importorskip('soundfile')
    for i, rate in enumerate((11025, 48000)):
        soundfile.write(tmp_path / f'{i}.wav', np.sin(np.arange(rate) * 2 * np.pi * 300 / rate)[:, None].repeat(2, 1) * .1 ** i, rate)
    for name, x in pytest.importorskip('cases').recordings(tmp_path):
        assert len(x) == pytest.approx(1.6 * 48000, abs=9) and not x[:14400].any() and not x[-14400:].any()
        assert 20 * np.log10(x[20000:60000].std()) == pytest.approx(-26, abs=.1)


def test_peers_come_without_their_delay():
    peers = pytest.importorskip('peers')

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


def test_the_differentiable_dnsmos_is_the_published_one():
    torch, mos, run = pytest.importorskip('torch'), pytest.importorskip('dnsmos'), pytest.importorskip('speechmos.dnsmos').run
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
    x = pytest.importorskip('cases').thuds(5 * RATE, RATE, 0)
    power = np.abs(np.fft.rfft(x)) ** 2
    assert power[:600 * 5].sum() > .85 * power.sum()
    e = (x.reshape(-1, RATE // 20) ** 2).mean(1)
    assert np.median(e) < 1e-3 * e.max() and (e > .1 * e.max()).sum() >= 3
