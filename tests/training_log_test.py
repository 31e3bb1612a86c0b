import glob
import os

import matplotlib.image
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import training_log
from ds2_tf.training_log import TrainingLog

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
