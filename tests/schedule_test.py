import dataclasses
import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2_tf import schedule
from ds2_tf.schedule import ScheduleConfig, Score, learning_rate
from ds2_tf.train import Progress

PLATEAU = ScheduleConfig(learning_rate=0.8, anneal=2.0, anneal_after="plateau")

# Few different rates, so that equal ones are frequent.
RATES = st.sampled_from([0.0, 0.25, 0.5, 1.25, float("inf")])
SCORES = st.lists(st.builds(Score, RATES, RATES), max_size=12)


def scores(*words):
    return [Score(rate, 0.5) for rate in words]


def test_the_rate_is_divided_after_each_epoch():
    config = ScheduleConfig(learning_rate=0.6, anneal=1.2)
    rates = [learning_rate(config, step=1000 * epoch, epoch=epoch) for epoch in range(4)]
    assert rates == pytest.approx([0.6, 0.5, 0.4166667, 0.3472222])


def test_the_scores_mean_nothing_to_a_rate_that_falls_by_epochs():
    config = ScheduleConfig(learning_rate=0.6, anneal=1.2)
    assert learning_rate(config, 9, 1, scores(0.5, 0.9, 0.9)) == pytest.approx(0.5)


def test_the_rate_rises_evenly_to_its_full_value():
    config = ScheduleConfig(learning_rate=0.8, anneal=2.0, warmup_steps=4)
    rates = [learning_rate(config, step, epoch=0) for step in range(6)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])


def test_a_warmup_that_outlasts_an_epoch_goes_on():
    config = ScheduleConfig(learning_rate=0.8, anneal=2.0, warmup_steps=4)
    assert learning_rate(config, step=1, epoch=1) == pytest.approx(0.2)
    assert learning_rate(config, step=3, epoch=2) == pytest.approx(0.2)
    by_plateau = dataclasses.replace(config, anneal_after="plateau")
    assert learning_rate(by_plateau, 1, 1, scores(0.5)) == pytest.approx(0.4)
    assert learning_rate(by_plateau, 1, 2, scores(0.5, 0.5)) == pytest.approx(0.2)


def test_without_annealing_and_warmup_it_stays():
    config = ScheduleConfig(learning_rate=0.1, anneal=1.0)
    assert {learning_rate(config, step, epoch) for step in (0, 9) for epoch in (0, 50)} == {0.1}


@pytest.mark.parametrize(
    ("patience", "expected"),
    [
        # Better, as good, worse, worse, better, worse than the best though better than before.
        (1, [0.8, 0.8, 0.8, 0.4, 0.2, 0.1, 0.1, 0.05]),
        (2, [0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4]),
        (3, [0.8, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4]),
        (4, [0.8] * 8),
    ],
)
def test_a_plateau_divides_the_rate(patience, expected):
    config = dataclasses.replace(PLATEAU, plateau_epochs=patience)
    history = scores(0.6, 0.5, 0.5, 0.7, 0.6, 0.4, 0.45)
    rates = [learning_rate(config, 100, n, history[:n]) for n in range(8)]
    assert rates == pytest.approx(expected)


def test_after_a_division_the_waiting_begins_anew():
    config = dataclasses.replace(PLATEAU, plateau_epochs=2)
    rates = [learning_rate(config, 0, n, scores(*[0.5] * n)) for n in range(7)]
    assert rates == pytest.approx([0.8, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2])


@given(SCORES, st.integers(1, 4))
def test_the_rate_falls_once_for_every_so_many_epochs_in_vain(history, patience):
    config = dataclasses.replace(PLATEAU, plateau_epochs=patience)
    is_better = [history[i] < min(history[:i]) for i in range(1, len(history))]
    runs = [len(list(run)) for better, run in itertools.groupby(is_better) if not better]
    times = sum(length // patience for length in runs)
    assert learning_rate(config, 0, len(history), history) == pytest.approx(0.8 / 2**times)


@given(SCORES, st.integers(1, 4))
def test_training_ends_when_the_last_epochs_brought_nothing(history, patience):
    last, before = history[-patience:], history[:-patience]
    in_vain = bool(before) and min(last) >= min(before)
    assert schedule.is_finished(ScheduleConfig(stop_after_epochs=patience), history) == in_vain
    assert not schedule.is_finished(ScheduleConfig(), history)


def test_training_does_not_end_at_once():
    """CASES 5: not before the first epoch, nor after one that nothing can be better than."""
    config = ScheduleConfig(stop_after_epochs=1)
    assert not schedule.is_finished(config, [])
    assert not schedule.is_finished(config, [Score(0.0, 0.0)])
    assert schedule.is_finished(config, [Score(0.0, 0.0)] * 2)
    patient = ScheduleConfig(stop_after_epochs=3)
    ends = [schedule.is_finished(patient, scores(0.4, 0.5, 0.5, 0.5)[:n]) for n in range(5)]
    assert ends == [False, False, False, False, True]


def test_a_better_epoch_gives_training_a_new_chance():
    config = ScheduleConfig(stop_after_epochs=2)
    assert not schedule.is_finished(config, scores(0.5, 0.6, 0.4))
    assert not schedule.is_finished(config, scores(0.5, 0.6, 0.4, 0.5))
    assert schedule.is_finished(config, scores(0.5, 0.6, 0.4, 0.5, 0.4))


def test_the_second_rate_decides_between_equal_first_ones():
    ordered = [Score(0.1, 0.9), Score(0.2, 0.1), Score(0.2, 0.2), Score(float("inf"), 0.0)]
    assert sorted(reversed(ordered)) == ordered
    assert (ordered[0].first, ordered[0].second) == (0.1, 0.9)
    config = ScheduleConfig(stop_after_epochs=1)
    assert not schedule.is_finished(config, [Score(0.2, 0.2), Score(0.2, 0.1)])
    assert schedule.is_finished(config, [Score(0.2, 0.1), Score(0.2, 0.2)])


@given(SCORES, st.integers(1, 3))
def test_a_run_that_goes_on_knows_its_history(history, patience):
    """CASES 4: all state is in the scores, which go through JSON with each checkpoint."""
    config = dataclasses.replace(PLATEAU, plateau_epochs=patience, stop_after_epochs=patience)
    saved = json.dumps(dataclasses.asdict(Progress(scores=history)))
    restored = Progress.from_json(json.loads(saved)).scores
    assert restored == history
    assert all(isinstance(score, Score) for score in restored)
    assert schedule.is_finished(config, restored) == schedule.is_finished(config, history)
    rates = [learning_rate(config, 5, len(history), known) for known in (history, restored)]
    assert rates[0] == rates[1]


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({}, False),
        ({"plateau_epochs": 3}, False),
        ({"anneal_after": "plateau"}, True),
        ({"stop_after_epochs": 1}, True),
    ],
)
def test_who_needs_a_dev_set(settings, needed):
    assert ScheduleConfig(**settings).needs_scores == needed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            settings,
            "learning_rate must be > 0, anneal >= 1 and warmup_steps >= 0. Received: " + received,
        )
        for settings, received in [
            ({"learning_rate": 0.0}, "0.0, 1.2, 0"),
            ({"learning_rate": -1.0}, "-1.0, 1.2, 0"),
            ({"anneal": 0.9}, "0.0003, 0.9, 0"),
            ({"warmup_steps": -1}, "0.0003, 1.2, -1"),
        ]
    ]
    + [
        (
            {"anneal_after": "step"},
            "anneal_after must be 'epoch' or 'plateau'. Received: 'step'",
        ),
        (
            {"plateau_epochs": 0},
            "plateau_epochs must be >= 1 and stop_after_epochs >= 0. Received: 0, 0",
        ),
        (
            {"stop_after_epochs": -1},
            "plateau_epochs must be >= 1 and stop_after_epochs >= 0. Received: 1, -1",
        ),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ScheduleConfig(**settings)
