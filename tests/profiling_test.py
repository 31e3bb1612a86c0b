import glob
import os

import pytest
import tensorflow as tf

from ds2_tf.profiling import Profiler


def profiles(folder):
    return glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)


def test_a_profile_appears_when_it_is_asked_for(tmp_path):
    product = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)))
    for num_steps, folder in ((0, tmp_path / "none"), (2, tmp_path / "two")):
        profiler = Profiler(folder, step=0, num_steps=num_steps)
        for step in range(1, 10):
            product(tf.eye(3))
            profiler.after(step)
            assert len(profiles(folder)) == (1 if num_steps and step >= 7 else 0)
    (path,) = profiles(tmp_path / "two")
    with open(path, "rb") as file:
        assert b"MatMul" in file.read()


@pytest.mark.parametrize(
    ("step", "num_steps", "expected"),
    [
        (0, 0, []),
        (0, 1, [("start", 5), ("stop", 6)]),
        (0, 3, [("start", 5), ("stop", 8)]),
        (100, 3, [("start", 105), ("stop", 108)]),
    ],
)
def test_the_steps_after_a_warm_up_are_recorded(monkeypatch, tmp_path, step, num_steps, expected):
    """Also when the process goes on from a checkpoint: graphs are traced then, too."""
    called = []
    monkeypatch.setattr(
        tf.profiler.experimental, "start", lambda folder: called.append(("start", done, folder))
    )
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: called.append(("stop", done)))
    profiler = Profiler(tmp_path / "log", step, num_steps)
    for done in range(step + 1, step + 20):
        profiler.after(done)
    assert [call[:2] for call in called] == expected
    assert all(call[2:] == (str(tmp_path / "log"),) for call in called if call[0] == "start")


def test_the_log_names_the_steps_and_the_folder(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: None)
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: None)
    profiler = Profiler(tmp_path, step=10, num_steps=2)
    with caplog.at_level("INFO", logger="absl"):
        for step in range(11, 20):
            profiler.after(step)
    assert [r.getMessage() for r in caplog.records] == [f"profile from step 16 on: {tmp_path}"]


def test_a_profile_that_is_not_complete_when_training_ends_is_kept(tmp_path):
    with Profiler(tmp_path, step=0, num_steps=50) as profiler:
        for step in range(1, 8):
            profiler.after(step)
        assert not profiles(tmp_path)
    assert len(profiles(tmp_path)) == 1
