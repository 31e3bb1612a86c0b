import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2_tf.loss_scale import LossScale


@pytest.mark.parametrize(
    ("precision", "value"), [("float32", 1.0), ("bfloat16", 1.0), ("float16", 32768.0)]
)
def test_only_float16_needs_a_scale(precision, value):
    assert LossScale.for_precision(precision) == LossScale(value, 0)


def test_it_doubles_after_2000_good_steps():
    scale = LossScale(8.0)
    values = []
    for _ in range(4001):
        scale.grow()
        values.append(scale.value)
    assert values == [8.0] * 1999 + [16.0] * 2000 + [32.0] * 2
    assert scale.good_steps == 1


def test_an_overflow_halves_it_and_the_count_begins_anew():
    scale = LossScale(8.0, good_steps=1999)
    assert scale.shrink()
    assert scale == LossScale(4.0, 0)
    for _ in range(1999):
        scale.grow()
    assert scale.value == 4.0
    scale.grow()
    assert scale.value == 8.0


def test_it_sinks_to_1_and_stays():
    scale = LossScale.for_precision("float16")
    assert [scale.shrink() for _ in range(17)] == [True] * 15 + [False] * 2
    assert scale == LossScale(1.0, 0)
    for _ in range(2000):
        scale.grow()
    assert scale == LossScale(1.0, 0)


@given(st.lists(st.integers(0, 4500), min_size=1, max_size=6))
def test_a_run_that_goes_on_has_the_same_scale(runs_of_good_steps):
    """Each run of good steps ends with an overflow, and the process ends there, too."""
    scale, exponent = LossScale(2.0**10), 10
    for num_steps in runs_of_good_steps:
        for _ in range(num_steps):
            scale.grow()
        exponent += num_steps // 2000
        assert scale == LossScale(2.0**exponent, num_steps % 2000)
        scale = LossScale(**json.loads(json.dumps(dataclasses.asdict(scale))))
        assert scale.shrink()
        exponent -= 1
    assert scale == LossScale(2.0**exponent, 0)
