"""The scores that are not a library's."""
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
