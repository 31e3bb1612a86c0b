import pytest

from ds2_tf.schedule import ScheduleConfig, learning_rate


def test_the_rate_is_divided_after_each_epoch():
    config = ScheduleConfig(learning_rate=0.6, anneal=1.2)
    rates = [learning_rate(config, step=1000 * epoch, epoch=epoch) for epoch in range(4)]
    assert rates == pytest.approx([0.6, 0.5, 0.4166667, 0.3472222])


def test_the_rate_rises_evenly_to_its_full_value():
    config = ScheduleConfig(learning_rate=0.8, anneal=2.0, warmup_steps=4)
    rates = [learning_rate(config, step, epoch=0) for step in range(6)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])


def test_a_warmup_that_outlasts_an_epoch_goes_on():
    config = ScheduleConfig(learning_rate=0.8, anneal=2.0, warmup_steps=4)
    assert learning_rate(config, step=1, epoch=1) == pytest.approx(0.2)
    assert learning_rate(config, step=3, epoch=2) == pytest.approx(0.2)


def test_without_annealing_and_warmup_it_stays():
    config = ScheduleConfig(learning_rate=0.1, anneal=1.0)
    assert {learning_rate(config, step, epoch) for step in (0, 9) for epoch in (0, 50)} == {0.1}


@pytest.mark.parametrize(
    ("settings", "received"),
    [
        ({"learning_rate": 0.0}, "0.0, 1.2, 0"),
        ({"learning_rate": -1.0}, "-1.0, 1.2, 0"),
        ({"anneal": 0.9}, "0.0003, 0.9, 0"),
        ({"warmup_steps": -1}, "0.0003, 1.2, -1"),
    ],
)
def test_wrong_settings_are_named(settings, received):
    message = "^learning_rate must be > 0, anneal >= 1 and warmup_steps >= 0. Received: "
    with pytest.raises(ValueError, match=f"{message}{received}$"):
        ScheduleConfig(**settings)
