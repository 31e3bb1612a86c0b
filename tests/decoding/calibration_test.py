import math

import numpy as np
import pytest

from ds2_tf.decoding import calibration, confidence
from ds2_tf.decoding.beam_options import Hypothesis, WordEvidence
from ds2_tf.transcript import Symbol


def hypothesis(text, spaced=True):
    words = text.split() if spaced else [c for c in text if c != " "]
    symbols = tuple(Symbol(c, 0.0, 0.0, 1.0) for c in text)
    evidence = tuple(WordEvidence(word, 0.5, -0.1) for word in words)
    return Hypothesis(symbols, 0.0, 0.0, 0.0, evidence)


def test_words_are_right_where_the_reference_has_them():
    right = calibration.judge("the cat sat down", hypothesis("the bat sat sat"))
    assert right.count(True) == 2
    assert right[0]
    assert not right[1]


def test_characters_are_judged_where_each_is_a_word():
    assert calibration.judge("你好吗", hypothesis("你不吗", spaced=False)) == [True, False, True]


def test_fitted_weights_find_the_true_ones():
    rng = np.random.default_rng(0)
    mass, acoustic = rng.uniform(0.01, 0.99, 20_000), -rng.uniform(0, 2, 20_000)
    words = list(zip(mass, acoustic, strict=True))
    truth = (0.7, 1.5, 1.0)
    right = [rng.uniform() < confidence.of_word(*word, truth) for word in words]
    np.testing.assert_allclose(calibration.fit(words, right), truth, atol=0.1)


@pytest.mark.parametrize("num_wrong", [0, 29, 71, 100])
def test_too_few_words_of_a_kind_teach_nothing(num_wrong):
    right = [False] * num_wrong + [True] * (100 - num_wrong)
    assert calibration.fit([(0.9, -0.1)] * 100, right) is None


def test_features_without_fail_have_finite_weights():
    words = [(0.99, -0.01)] * 50 + [(0.2, -2.0)] * 50
    weights = calibration.fit(words, [True] * 50 + [False] * 50)
    assert all(math.isfinite(weight) for weight in weights)
    assert confidence.of_word(0.99, -0.01, weights) > 0.9
    assert confidence.of_word(0.2, -2.0, weights) < 0.1


def test_reliability_measures_the_distance_from_the_truth():
    result = calibration.reliability(
        [0.85, 0.85, 0.85, 0.85, 0.25], [True, True, True, False, False]
    )
    assert result.counts.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 4, 0]
    assert result.accuracies[8] == 0.75
    assert result.expected_error == pytest.approx((4 * 0.1 + 1 * 0.25) / 5)


@pytest.mark.parametrize("mass", [0.0, 1e-9, 0.5, 1.0])
@pytest.mark.parametrize("acoustic", [-1e3, -1.0, 0.0])
@pytest.mark.parametrize("weights", [None, (1.0, 1.0, 0.0), (30.0, 30.0, 5.0)])
def test_confidence_is_a_probability(mass, acoustic, weights):
    assert 0 <= confidence.of_word(mass, acoustic, weights) <= 1
