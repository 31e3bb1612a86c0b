"""Exactness of training, each run in a process of its own: promises 1, 3 and 4 of the design."""

import json
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from ds2_tf import manifest, training_log
from ds2_tf.corpora import digit_strings

NUM_UTTERANCES, BATCH_SIZE, NUM_EPOCHS = 16, 4, 3
CLONE = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def digits(digits_folder, tmp_path_factory):
    """A manifest of a few training strings, another of dev recordings."""
    folder = tmp_path_factory.mktemp("digits")
    splits = digit_strings.splits(digit_strings.read(digits_folder), "theo")
    short = [u for u in splits["train"] if u.duration_seconds < 3]
    manifest.write(folder / "train.jsonl", short[:NUM_UTTERANCES])
    manifest.write(folder / "dev.jsonl", splits["dev"][:3])
    return folder


def start(digits, workdir, **settings):
    values = {"workdir": str(workdir), "manifest": str(digits / "train.jsonl"), **settings}
    return subprocess.run(
        [sys.executable, "-m", "tests.train_program", json.dumps(values)],
        cwd=CLONE,
        capture_output=True,
        text=True,
        check=False,
    )


def finish(digits, workdir, **settings):
    result = start(digits, workdir, **settings)
    assert result.returncode == 0, result.stderr
    return last_checkpoint(workdir)


def last_checkpoint(workdir):
    path = sorted((workdir / "checkpoints").glob("*.npz"))[-1]
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def assert_same_bits(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name]), name


@pytest.fixture(scope="module")
def undisturbed(digits, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("undisturbed")
    return finish(digits, workdir, dev=str(digits / "dev.jsonl"))


def test_a_run_writes_everything_its_users_need(undisturbed, digits, tmp_path_factory):
    workdir = tmp_path_factory.getbasetemp() / "undisturbed0"
    for name in (
        "config.json",
        "alphabet.json",
        "normalization.npz",
        "best/weights.npz",
        "metrics.jsonl",
        "learning_curve.png",
        "tensorboard",
    ):
        assert (workdir / name).exists(), name
    assert len(list((workdir / "checkpoints").iterdir())) == 3
    rows = training_log.read(workdir / "metrics.jsonl")
    num_steps = json.loads(str(undisturbed["metadata.json"]))["step"]
    assert [row["epoch"] for row in rows if "dev_wer" in row] == [1, 2, 3]
    assert rows[-1]["step"] == num_steps >= NUM_EPOCHS * NUM_UTTERANCES / BATCH_SIZE
    assert all(np.isfinite(row["loss"]) for row in rows if "loss" in row)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(undisturbed, digits, tmp_path):
    again = finish(digits, tmp_path / "again", dev=str(digits / "dev.jsonl"))
    assert_same_bits(again, undisturbed)
    other = finish(digits, tmp_path / "other", config={"training": {"seed": 8}})
    assert not np.array_equal(other["output/kernel"], undisturbed["output/kernel"])


def test_killed_at_any_step_it_ends_with_the_same_bits(undisturbed, digits, tmp_path):
    dev = str(digits / "dev.jsonl")
    for step in np.random.default_rng().permutation(np.arange(1, 12))[:3]:
        killed = start(digits, tmp_path, dev=dev, kill_at_step=int(step))
        assert killed.returncode in (-signal.SIGKILL, 0)  # 0 where a later step was done already
    assert_same_bits(finish(digits, tmp_path, dev=dev), undisturbed)


@pytest.mark.parametrize("write", [7, 9, 11])
def test_killed_while_writing_it_ends_with_the_same_bits(undisturbed, digits, tmp_path, write):
    dev = str(digits / "dev.jsonl")
    killed = start(digits, tmp_path, dev=dev, kill_in_write=write)
    assert killed.returncode == -signal.SIGKILL
    assert any(tmp_path.rglob("*.tmp"))  # it was in the middle of a file
    assert_same_bits(finish(digits, tmp_path, dev=dev), undisturbed)


def test_ctrl_c_saves_and_the_same_command_goes_on(undisturbed, digits, tmp_path):
    dev = str(digits / "dev.jsonl")
    stopped = start(digits, tmp_path, dev=dev, interrupt_at_step=6)
    assert stopped.returncode != 0
    assert json.loads(str(last_checkpoint(tmp_path)["metadata.json"]))["step"] == 7
    assert_same_bits(finish(digits, tmp_path, dev=dev), undisturbed)


def test_two_replicas_equal_one(digits, tmp_path):
    """16 utterances in batches of 3: shares of 2 and 1, at last of 1 and 0; 24 steps."""
    settings = {
        "model": {"dropout": 0.0},
        "batches": {"batch_size": 3, "sorted_epochs": 4},
        "optimizer": {"name": "sgd", "momentum": 0.9, "clip_norm": 150.0},
        "schedule": {"learning_rate": 1e-4, "anneal": 1.0},
        "training": {"num_epochs": 4, "log_steps": 1},
    }
    one = finish(digits, tmp_path / "one", config=settings)
    two = finish(digits, tmp_path / "two", config=settings, replicas=2)
    norms = [
        row["gradient_norm"]
        for row in training_log.read(tmp_path / "one" / "metrics.jsonl")
        if "gradient_norm" in row
    ]
    assert len(norms) == 24
    assert min(norms) < 150 < max(norms), norms
    weights = {name for name in one if not name.startswith(("optimizer/", "metadata"))}
    for name in weights:
        np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-5, err_msg=name)


def test_a_loss_that_is_no_number_stops_with_the_rows_of_the_batch(digits, tmp_path):
    result = start(digits, tmp_path, config={"schedule": {"learning_rate": 1e30}})
    assert result.returncode == 1
    message = result.stderr.strip().splitlines()[-1]
    assert message.startswith("error: loss ")
    assert "config.schedule.learning_rate. The batch: " in message
    assert "train.jsonl:" in message


def test_data_that_cannot_be_trained_on_stops_before_the_first_step(digits, tmp_path):
    rows = manifest.read(digits / "train.jsonl")
    lines = (digits / "train.jsonl").read_text().splitlines()
    lines[4] = json.dumps({**json.loads(lines[4]), "text": "naïve"})
    bad = tmp_path / "bad.jsonl"
    absolute = [
        {**json.loads(x), "audio_filepath": list(u.audio_paths)}
        for x, u in zip(lines, rows, strict=True)
    ]
    bad.write_text("\n".join(json.dumps(row) for row in absolute))
    result = start(digits, tmp_path / "run", manifest=str(bad))
    assert result.returncode == 1
    message = result.stderr.strip().splitlines()[-1]
    assert message.startswith(f"error: {bad}:5: ")
    assert "'ï'" in message or "U+00EF" in message
    assert not (tmp_path / "run" / "checkpoints").exists()
