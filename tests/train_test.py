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
    assert "a lower config.schedule.learning_rate" in message
    assert ". The batch: " in message
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


def test_the_same_run_with_a_small_memory_budget_says_what_it_does(digits, tmp_path):
    result = start(digits, tmp_path, config={"memory": {"budget_mib": 1}})
    assert result.returncode == 0, result.stderr
    assert "are run with activations computed twice and in 4 parts" in result.stderr
    losses = [r["loss"] for r in training_log.read(tmp_path / "metrics.jsonl") if "loss" in r]
    assert np.isfinite(losses).all()


def test_a_step_out_of_memory_is_done_again_with_less(digits, tmp_path):
    settings = {
        "model": {"batch_norm": False, "dropout": 0.0},  # parts have no statistics of their own
        "optimizer": {"name": "sgd", "momentum": 0.9},
        "schedule": {"learning_rate": 1e-5},
    }
    expected = finish(digits, tmp_path / "expected", config=settings)
    result = start(digits, tmp_path / "exhausted", config=settings, exhaust_memory=1)
    assert result.returncode == 0, result.stderr
    assert "are run with activations computed twice" in result.stderr
    ours = last_checkpoint(tmp_path / "exhausted")
    for name, value in expected.items():
        if not name.startswith(("metadata", "optimizer")):
            np.testing.assert_allclose(ours[name], value, atol=1e-5, err_msg=name)


def test_out_of_memory_without_fallback_names_option_and_rows(digits, tmp_path):
    settings = {"memory": {"fallback": False}}
    result = start(digits, tmp_path, config=settings, exhaust_memory=1)
    assert result.returncode == 1
    message = result.stderr.strip().splitlines()[-1]
    assert message.startswith("error: out of memory at step 1; set config.memory.budget_mib ")
    assert "train.jsonl:" in message


def test_bfloat16_trains_like_float32(digits, tmp_path):
    losses = []
    for precision in ("bfloat16", "float32"):
        settings = {"model": {"dropout": 0.0}, "training": {"log_steps": 1, "precision": precision}}
        weights = finish(digits, tmp_path / precision, config=settings)
        assert weights["conv_0/linear/kernel"].dtype == np.float32
        rows = training_log.read(tmp_path / precision / "metrics.jsonl")
        losses.append([row["loss"] for row in rows])
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.02)


def test_float16_finds_its_loss_scale(digits, tmp_path):
    settings = {"training": {"log_steps": 1, "precision": "float16", "num_epochs": 4}}
    weights = finish(digits, tmp_path, config=settings)
    rows = training_log.read(tmp_path / "metrics.jsonl")
    skipped = sum(row["skipped_steps"] for row in rows)
    assert skipped <= len(rows) / 2
    scale = json.loads(str(weights["metadata.json"]))["loss_scale"]["value"]
    assert scale == 2.0 ** (15 - skipped)
    assert not any(row["skipped_steps"] for row in rows[len(rows) // 2 :])


def test_single_bad_steps_may_be_left_out_and_are_counted(digits, tmp_path):
    """A loss scale of half precision that is far too high: steps are left out until it fits."""
    settings = {
        "training": {"max_skipped_steps": 3, "log_steps": 1},
        "schedule": {"learning_rate": 1e30},
    }
    result = start(digits, tmp_path, config=settings)
    assert result.returncode == 1
    assert result.stderr.count("left out, ") == 3
    assert "left out, 3 in a row. The batch: " in result.stderr
    rows = training_log.read(tmp_path / "metrics.jsonl")
    assert sum(row.get("skipped_steps", 0) for row in rows) == 3


def test_transfer_keeps_all_but_the_output_layer_and_frozen_layers_stay(
    digits, undisturbed, tmp_path
):
    source = tmp_path.parent / "undisturbed0"
    settings = {
        "alphabet": {"symbols": " efghinorstuvwxzq"},
        "training": {"init_from": str(source), "freeze": ("conv_*",), "num_epochs": 1},
    }
    result = start(digits, tmp_path, config=settings)
    assert result.returncode == 0, result.stderr
    assert "left as made: output/kernel: its labels mean other symbols there" in result.stderr
    ours = last_checkpoint(tmp_path)
    with np.load(source / "best" / "weights.npz") as arrays:
        best = {name: arrays[name] for name in arrays.files}
    for name, value in best.items():
        if name.startswith("conv_0/"):
            np.testing.assert_array_equal(ours[name], value, err_msg=name)
    assert ours["output/kernel"].shape[1] == best["output/kernel"].shape[1] + 1
    moved = np.abs(ours["recurrent_0/kernel"] - best["recurrent_0/kernel"]).max()
    assert 0 < moved < 0.2
    statistics = [np.load(folder / "normalization.npz")["mean"] for folder in (tmp_path, source)]
    np.testing.assert_array_equal(*statistics)


def test_training_stops_early_and_stays_stopped(digits, tmp_path):
    settings = {
        "schedule": {"learning_rate": 1e-9, "warmup_steps": 0, "stop_after_epochs": 2},
        "training": {"num_epochs": 30},
    }
    dev = str(digits / "dev.jsonl")
    first = finish(digits, tmp_path, dev=dev, config=settings)
    metadata = json.loads(str(first["metadata.json"]))
    assert metadata["epoch"] == len(metadata["scores"]) < 30
    assert_same_bits(finish(digits, tmp_path, dev=dev, config=settings), first)


def test_early_stopping_without_a_dev_set_is_an_error(digits, tmp_path):
    result = start(digits, tmp_path, config={"schedule": {"stop_after_epochs": 2}})
    assert result.returncode == 1
    message = result.stderr.strip().splitlines()[-1]
    assert message.startswith("error: config.schedule: plateaus and early stopping are judged on")


def test_one_utterance_is_a_corpus_and_replicas_may_be_more(digits, tmp_path):
    rows = manifest.read(digits / "train.jsonl")
    manifest.write(tmp_path / "one.jsonl", rows[:1])
    path = str(tmp_path / "one.jsonl")
    for replicas in (1, 3):
        weights = finish(digits, tmp_path / f"{replicas}", manifest=path, replicas=replicas)
        assert all(np.isfinite(v).all() for v in weights.values() if v.dtype == np.float32)


def test_a_resumed_run_tells_changed_settings_and_refuses_others(digits, tmp_path):
    first = {"training": {"num_epochs": 1}}
    finish(digits, tmp_path, config=first)
    more = start(digits, tmp_path, config={"training": {"num_epochs": 2}})
    assert more.returncode == 0
    assert "(before, now): training.num_epochs: 1, 2" in more.stderr
    other = start(digits, tmp_path, config={"model": {"rnn_units": 8}})
    assert other.returncode == 1
    assert "model.rnn_units: 16, 8" in other.stderr.strip().splitlines()[-1]
    starts = (tmp_path / "provenance.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in starts] == [0, 4]
    assert json.loads(starts[0])["packages"]["keras"]
