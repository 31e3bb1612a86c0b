"""Several workers on one machine, each a process: exactness, uneven data, a worker that dies."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from ds2_tf import manifest, training_log
from ds2_tf.corpora import digit_strings

CLONE = pathlib.Path(__file__).parents[1]
NUM_UTTERANCES = 16
SETTINGS = {
    "model": {"dropout": 0.0},
    "batches": {"batch_size": 3, "sorted_epochs": 4},  # shares of 2 and 1, at last of 1 and 0
    "optimizer": {"name": "sgd", "momentum": 0.9, "clip_norm": 150.0},
    "schedule": {"learning_rate": 1e-4, "anneal": 1.0},
    "training": {"num_epochs": 9, "log_steps": 1},
}


@pytest.fixture(scope="module")
def digits(digits_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    splits = digit_strings.splits(digit_strings.read(digits_folder), "theo")
    short = [u for u in splits["train"] if u.duration_seconds < 3]
    manifest.write(folder / "train.jsonl", short[:NUM_UTTERANCES])
    manifest.write(folder / "dev.jsonl", splits["dev"][:3])
    return folder


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start(settings, environment=None):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.train_program", json.dumps(settings)],
        cwd=CLONE,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_two(digits, workdir, *own, **config):
    """Starts two workers; `own` holds what only the first or the second is told."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = []
    for index in range(2):
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        settings = {
            "workdir": str(workdir),
            "manifest": str(digits / "train.jsonl"),
            "dev": str(digits / "dev.jsonl"),
            "config": {**SETTINGS, **config},
            **(own[index] if own else {}),
        }
        processes.append(start(settings, {"TF_CONFIG": json.dumps(task)}))
    return processes


def finish(processes):
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    return outputs


def last_checkpoint(workdir):
    with np.load(sorted((workdir / "checkpoints").glob("*.npz"))[-1]) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.fixture(scope="module")
def two_workers(digits, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("two")
    return workdir, finish(start_two(digits, workdir))


def test_two_workers_equal_one_process_with_the_same_batches(digits, two_workers, tmp_path):
    """After 54 steps to 1e-4: 1e-7 after the first 24, then some ReLU falls to the other side."""
    workdir, outputs = two_workers
    alone = start(
        {
            "workdir": str(tmp_path),
            "manifest": str(digits / "train.jsonl"),
            "dev": str(digits / "dev.jsonl"),
            "config": SETTINGS,
        }
    )
    finish([alone])
    norms = [
        row["gradient_norm"]
        for row in training_log.read(tmp_path / "metrics.jsonl")
        if "gradient_norm" in row
    ]
    assert len(norms) == 54
    assert min(norms) < 150 < max(norms)
    ours, theirs = last_checkpoint(workdir), last_checkpoint(tmp_path)
    assert ours.keys() == theirs.keys()
    for name in set(ours) - {"metadata.json"}:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-4, err_msg=name)
    assert all("finished at step 54" in output for output in outputs)
    assert "worker 0 of 2, training on" in outputs[0]
    assert "(collective RING)" in outputs[0]


def test_only_the_chief_writes_the_model(two_workers):
    workdir, _ = two_workers
    assert (workdir / "best" / "weights.npz").exists()
    assert sorted(p.name for p in (workdir / "worker_1").iterdir()) == [
        "learning_curve.png",
        "metrics.jsonl",
        "tensorboard",
    ]
    provenance = (workdir / "provenance.jsonl").read_text().splitlines()
    assert len(provenance) == 1


def test_a_worker_that_loses_its_data_hangs_nobody(digits, tmp_path):
    rows = manifest.read(digits / "train.jsonl")
    broken = {"unreadable": rows[0].audio_paths[0]}
    training = {**SETTINGS["training"], "num_epochs": 1}
    data = {"max_bad_share": 0.5}
    outputs = finish(start_two(digits, tmp_path, broken, broken, training=training, data=data))
    assert all("finished at step 6" in output for output in outputs)
    assert sum("left out, 1 so far" in output for output in outputs) == 1


@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_worker_is_killed_the_other_says_so_and_the_run_can_go_on(
    digits, two_workers, tmp_path, victim
):
    own = [{}, {}]
    own[victim] = {"kill_at_step": 8}
    processes = start_two(digits, tmp_path, *own)
    assert processes[victim].wait(timeout=300) == -signal.SIGKILL
    since = time.monotonic()
    output, _ = processes[1 - victim].communicate(timeout=120)
    assert time.monotonic() - since < 60
    assert processes[1 - victim].returncode == 1
    message = output.strip().splitlines()[-1]
    assert message.startswith(f"error: worker {1 - victim} of 2 lost another one (")
    assert "training goes on from the last checkpoint" in message

    outputs = finish(start_two(digits, tmp_path))
    assert all("going on from step" in output for output in outputs)
    resumed, undisturbed = last_checkpoint(tmp_path), last_checkpoint(two_workers[0])
    for name in sorted(set(resumed) - {"metadata.json"}):
        found, expected = resumed[name], undisturbed[name]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_when_the_chief_finds_bad_data_the_other_does_not_wait_for_ever(digits, tmp_path):
    bad = tmp_path / "bad.jsonl"
    row = json.loads((digits / "train.jsonl").read_text().splitlines()[0])
    utterance = manifest.read(digits / "train.jsonl")[0]
    row |= {"audio_filepath": list(utterance.audio_paths), "text": "naïve"}
    bad.write_text(json.dumps(row) + "\n")
    settings = {"manifest": str(bad)}
    processes = start_two(digits, tmp_path / "run", settings, settings)
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert f"error: {bad}:1: " in outputs[0]
    assert "error: another worker cannot go on; its own log says why" in outputs[1]


def test_workers_that_share_no_folder_are_told(digits, tmp_path, two_workers):
    workdir, _ = two_workers
    training = {**SETTINGS["training"], "num_epochs": 10}
    elsewhere = tmp_path / "elsewhere"
    processes = start_two(digits, workdir, {}, {"workdir": str(elsewhere)}, training=training)
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert processes[1].returncode == 1
    assert "error: " in outputs[1].strip().splitlines()[-1]
    assert "--workdir" in outputs[1].strip().splitlines()[-1]


def test_ctrl_c_on_one_worker_stops_both_at_the_same_step(digits, tmp_path):
    processes = start_two(digits, tmp_path, {}, {"interrupt_at_step": 4})
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] != [0, 0]
    for output in outputs:
        assert "stopped at step 5; the same command goes on" in output
    assert json.loads(str(last_checkpoint(tmp_path)["metadata.json"]))["step"] == 5


def test_workers_with_different_settings_do_not_train_together(digits, tmp_path):
    other = {"config": {**SETTINGS, "schedule": {"learning_rate": 1e-2, "anneal": 1.0}}}
    processes = start_two(digits, tmp_path, {}, other)
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert "error: another worker cannot go on" in outputs[0]
    assert "this worker's: schedule.learning_rate: 0.0001, 0.01)" in outputs[1]
    assert not (tmp_path / "checkpoints").exists()
