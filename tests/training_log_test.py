import glob
import itertools
import logging
import os
import types

import matplotlib.image
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from ds2_tf import metrics, training_log
from ds2_tf.evaluation_report import UtteranceResult
from ds2_tf.manifest import Utterance
from ds2_tf.training_log import Meter, TrainingLog

LOSSES = [{"step": step, "loss": 100.0 / step, "gradient_norm": 3.0} for step in (10, 20, 30, 40)]
DEV = [
    {"step": 20, "epoch": 1, "dev_wer": float("inf"), "dev_cer": 0.75},
    {"step": 40, "epoch": 2, "dev_wer": 1.25, "dev_cer": 0.5},
]
ROWS = sorted([*LOSSES, *DEV], key=lambda row: row["step"])


def fill(folder, rows=ROWS, resume_step=0, resume_epoch=0):
    log = TrainingLog(folder, resume_step, resume_epoch)
    for row in rows:
        log.write(row["step"], {key: value for key, value in row.items() if key != "step"})
    return log


def events(folder):
    """Returns (tag, step, value) of all TensorBoard files."""
    found = []
    for path in glob.glob(os.path.join(folder, "tensorboard", "*")):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                found.append((value.tag, event.step, float(tf.make_ndarray(value.tensor))))
    return found


def test_rows_come_back(tmp_path):
    log = fill(tmp_path)
    assert log.rows == ROWS
    assert training_log.read(tmp_path / "metrics.jsonl") == ROWS


def test_rows_are_on_the_disk_at_once(tmp_path):
    log = TrainingLog(tmp_path)
    assert training_log.read(tmp_path / "metrics.jsonl") == []
    for count in (1, 2):
        log.write(10 * count, {"loss": 1.0})
        assert len(training_log.read(tmp_path / "metrics.jsonl")) == count
        assert len(events(tmp_path)) == count


def test_tensorboard_shows_every_number(tmp_path):
    fill(tmp_path)
    expected = [
        (key, row["step"], value) for row in ROWS for key, value in row.items() if key != "step"
    ]
    found = {(tag, step): value for tag, step, value in events(tmp_path)}
    assert found == pytest.approx({(tag, step): value for tag, step, value in expected})


def test_a_run_that_goes_on_drops_the_rows_that_it_will_repeat(tmp_path):
    fill(tmp_path)
    log = fill(tmp_path, [{"step": 30, "loss": 7.0}], resume_step=20, resume_epoch=1)
    expected = [row for row in ROWS if row["step"] <= 20] + [{"step": 30, "loss": 7.0}]
    assert log.rows == expected
    assert training_log.read(tmp_path / "metrics.jsonl") == expected


def test_an_evaluation_after_the_last_checkpoint_is_dropped(tmp_path):
    fill(tmp_path)
    log = TrainingLog(tmp_path, resume_step=40, resume_epoch=1)
    assert log.rows == ROWS[:-1]


def test_a_new_run_drops_all_rows(tmp_path):
    fill(tmp_path)
    assert TrainingLog(tmp_path).rows == []
    assert training_log.read(tmp_path / "metrics.jsonl") == []


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path):
    fill(tmp_path)
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes()
    for size in range(len(whole) - 40, len(whole)):
        path.write_bytes(whole[:size])
        assert training_log.read(path) == ROWS[:-1]
    log = fill(tmp_path, [{"step": 50, "loss": 1.0}], resume_step=40, resume_epoch=2)
    assert log.rows == training_log.read(path) == [*ROWS[:-1], {"step": 50, "loss": 1.0}]


def test_no_file_means_no_rows(tmp_path):
    assert training_log.read(tmp_path / "metrics.jsonl") == []


def colours(path):
    """Returns how many pixels of the picture are neither white, grey nor black."""
    picture = matplotlib.image.imread(path)[..., :3]
    assert picture.shape == (440, 990, 3)
    return np.count_nonzero(np.ptp(picture, axis=-1) > 0.2, axis=0)


def test_the_picture_shows_losses_left_and_error_rates_right(tmp_path):
    finite = [row for row in ROWS if row.get("dev_wer") != float("inf")]
    shown = []
    for rows in ([], LOSSES, [*LOSSES, *finite], ROWS):
        log = fill(tmp_path, sorted(rows, key=lambda row: row["step"]))
        log.draw()
        columns = colours(tmp_path / "learning_curve.png")
        shown.append((columns[:495].sum() > 100, columns[495:].sum() > 100))
    assert shown == [(False, False), (True, False), (True, True), (True, True)]


def result(reference, hypothesis):
    return UtteranceResult(
        Utterance(("a.wav",), 1.0, reference),
        reference,
        hypothesis,
        metrics.word_errors(reference, hypothesis),
        metrics.character_errors(reference, hypothesis),
    )


def texts(folder):
    """Returns (tag, step, text) of all TensorBoard files."""
    found = []
    for path in sorted((folder / "tensorboard").iterdir()):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "text"
                found.append((value.tag, event.step, tf.make_ndarray(value.tensor).item().decode()))
    return found


def test_samples_are_shown_here_and_in_tensorboard(tmp_path, caplog):
    results = [result(f"reference {i}", f"hypothesis {i}") for i in range(7)]
    results[1] = result("größe", "")
    log = TrainingLog(tmp_path)
    with caplog.at_level(logging.INFO, logger="absl"):
        log.write_samples(30, results)
    assert [record.getMessage() for record in caplog.records] == [
        "said: reference 0 | written: hypothesis 0",
        "said: größe | written: ",
        "said: reference 2 | written: hypothesis 2",
        "said: reference 3 | written: hypothesis 3",
        "said: reference 4 | written: hypothesis 4",
    ]
    table = (
        "| said | written |",
        "| --- | --- |",
        "| reference 0 | hypothesis 0 |",
        "| größe |  |",
        "| reference 2 | hypothesis 2 |",
        "| reference 3 | hypothesis 3 |",
        "| reference 4 | hypothesis 4 |",
    )
    assert texts(tmp_path) == [("dev_samples", 30, "\n".join(table))]
    assert log.rows == training_log.read(tmp_path / "metrics.jsonl") == []


def test_fewer_samples_than_would_be_shown(tmp_path):
    TrainingLog(tmp_path).write_samples(1, [result("a", "b")])
    ((_, _, text),) = texts(tmp_path)
    assert text.splitlines()[2:] == ["| a | b |"]


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless it is moved."""
    fake = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(training_log, "time", types.SimpleNamespace(monotonic=lambda: fake.now))
    return fake


def step(loss=1.0, gradient_norm=1.0, clipped=False, skipped=False, num_frames=0, rate=0.1):
    return {
        "loss": loss,
        "gradient_norm": gradient_norm,
        "learning_rate": rate,
        "num_frames": num_frames,
        "clipped": clipped,
        "skipped": skipped,
    }


def test_a_row_holds_means_shares_and_speeds(clock):
    meter = Meter(seconds_per_frame=0.01)
    meter.add(**step(4.0, 10.0, clipped=False, num_frames=1000, rate=0.4))
    clock.now += 2.0
    meter.add(**step(2.0, 50.0, clipped=True, num_frames=3000, rate=0.3))
    meter.add(**step(3.0, 30.0, clipped=True, num_frames=2000, rate=0.2))
    clock.now += 1.0
    meter.add(**step(7.0, 20.0, clipped=False, num_frames=0, rate=0.1))
    clock.now += 1.0
    assert meter.pace() == "15 s audio/s"
    assert meter.take() == {
        "loss": 4.0,
        "gradient_norm": 27.5,
        "clipped_share": 0.5,
        "skipped_steps": 0.0,
        "learning_rate": 0.1,
        "audio_seconds_per_second": 15.0,
        "steps_per_second": 1.0,
        "input_stall_share": 0.0,
    }


def test_steps_that_were_left_out_are_in_no_mean(clock):
    meter = Meter(0.01)
    meter.add(**step(float("nan"), float("inf"), clipped=True, skipped=True, num_frames=100))
    meter.add(**step(2.0, 3.0, num_frames=300))
    clock.now += 4.0
    row = meter.take()
    assert (row["loss"], row["gradient_norm"]) == (2.0, 3.0)
    assert (row["skipped_steps"], row["clipped_share"]) == (1.0, 0.5)
    assert (row["steps_per_second"], row["audio_seconds_per_second"]) == (0.5, 1.0)


def test_a_row_without_any_step_but_left_out_ones_has_no_loss(clock, tmp_path):
    meter = Meter(0.01)
    for _ in range(3):
        meter.add(**step(float("nan"), float("nan"), skipped=True))
    clock.now += 1.0
    row = meter.take()
    assert not {"loss", "gradient_norm"} & set(row)
    assert row["skipped_steps"] == 3.0
    log = TrainingLog(tmp_path)
    log.write(3, row)
    log.write(6, {**row, "loss": 2.0})
    log.draw()
    assert training_log.read(tmp_path / "metrics.jsonl") == log.rows
    assert (tmp_path / "learning_curve.png").stat().st_size > 0


def test_each_row_tells_of_its_own_steps(clock):
    meter = Meter(0.01)
    for seconds, losses in ((1.0, [5.0, 7.0]), (4.0, [1.0])):
        for loss in losses:
            meter.add(**step(loss, skipped=False))
        clock.now += seconds
        row = meter.take()
        assert row["loss"] == np.mean(losses)
        assert row["steps_per_second"] == len(losses) / seconds


def test_restarting_forgets_steps_time_and_waiting(clock):
    meter = Meter(0.01)
    for _ in meter.waiting_for(slowly(clock, [1], 10.0)):
        meter.add(**step(9.0, num_frames=5))
    clock.now += 50.0
    meter.restart()
    meter.add(**step(1.0))
    clock.now += 2.0
    row = meter.take()
    assert (row["loss"], row["steps_per_second"], row["input_stall_share"]) == (1.0, 0.5, 0.0)


def slowly(clock, batches, seconds):
    for batch in batches:
        clock.now += seconds
        yield batch


def test_waiting_for_batches_is_told_from_work(clock):
    """Each batch takes 3 s to come and 1 s of work; the end of the batches takes no time."""
    meter = Meter(0.01)
    seen, shares = [], []
    for batch in meter.waiting_for(slowly(clock, itertools.repeat("batch", 4), 3.0)):
        seen.append(batch)
        clock.now += 1.0
        meter.add(**step())
        if len(seen) % 2 == 0:
            row = meter.take()
            shares.append((row["input_stall_share"], row["steps_per_second"]))
    assert seen == ["batch"] * 4
    assert shares == [(0.75, 0.25)] * 2


def test_batches_are_fetched_one_at_a_time(clock):
    fetched = []

    def batches():
        for number in range(3):
            fetched.append(number)
            yield {"number": number}

    waiting = Meter(0.01).waiting_for(batches())
    assert fetched == []
    assert next(waiting) == {"number": 0}
    assert fetched == [0]
    assert [batch["number"] for batch in waiting] == [1, 2]


def test_a_clock_that_stands_still_divides_nothing_by_zero(clock):
    meter = Meter(0.01)
    meter.add(**step(num_frames=0))
    assert meter.pace() == "0 s audio/s"
    assert meter.take()["input_stall_share"] == 0.0
