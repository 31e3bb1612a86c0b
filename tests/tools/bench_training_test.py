import dataclasses
import importlib.util
import json

import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from ds2_tf import alphabet, config, manifest
from ds2_tf.benchmarks import (
    contest,
    measurement,
    recordings,
    torch_client,
    training_contest,
    training_step,
)
from ds2_tf.benchmarks.measurement import Row, Times
from ds2_tf.model import ModelConfig
from tests.benchmark_run import RECORDINGS, TINY_RUN, program_status

ENGLISH = alphabet.english()


@pytest.fixture(scope="module")
def costs():
    run = config.resolve(ConfigDict(TINY_RUN))
    batches = training_step.synthetic_batches(run, ENGLISH, [0.5, 1.0])
    return training_step.measure(run, ENGLISH, batches, ["float32", "bfloat16"], 2)


def test_the_shares_of_a_step_add_up_to_one(costs):
    for each in costs:
        assert set(each.shares) == {*training_step.PARTS, training_step.REST}
        assert sum(each.shares.values()) == pytest.approx(1)
        assert all(each.shares[part] > 0 for part in training_step.PARTS)
        assert each.whole.wall_seconds > 0


def test_the_step_is_traced_once_whatever_the_batch(costs):
    assert [(each.first_traces, each.traces) for each in costs] == [(3, 3)] * 2


def test_rows_compare_with_the_first_precision(costs, tmp_path):
    found = training_step.rows("tiny", costs)
    path = tmp_path / "rows.json"
    measurement.save_rows(found, path)
    assert [Row(**row) for row in json.loads(path.read_text())] == found
    float32, bfloat16 = costs
    whole = next(row for row in found if row.metric == "CPU seconds a step, whole")
    assert whole == Row(
        "tiny bfloat16",
        "CPU seconds a step, whole",
        bfloat16.whole.cpu_seconds,
        "float32",
        float32.whole.cpu_seconds,
        float32.whole.cpu_seconds / bfloat16.whole.cpu_seconds,
    )
    named = {row.metric for row in found if row.case == "tiny float32" and row.best_peer is None}
    assert {"steps a second", "audio seconds a second", "CPU seconds a step"} < named


def test_the_table_shows_what_is_not_explained():
    parts = {part: Times(0.01, 0.01) for part in training_step.PARTS}
    parts[training_step.REST] = Times(0.04, -0.02)
    costs = [training_step.StepCosts("float32", 8.0, Times(0.1, 0.04), parts, 3, 4)]
    lines = training_step.table(costs).splitlines()
    assert lines[0] == (
        "float32: 10.00 steps/s, 80.0 s audio/s, 0.040 CPU s/step; traces of the step: 3 after all "
        "batches were seen once, 4 at the end"
    )
    assert lines[-2].split() == ["rest", "40.0", "-20.0", "-50.0%"]
    assert lines[-1].split() == ["whole", "100.0", "40.0", "100.0%"]


def test_batches_of_recordings_go_from_short_to_long():
    run = config.resolve(ConfigDict(TINY_RUN))
    utterances = recordings.trainable(run, ENGLISH, manifest.read(RECORDINGS))
    batches = training_step.recorded_batches(run, ENGLISH, utterances, 3)
    longest = [int(tf.reduce_max(batch["feature_lengths"])) for batch in batches]
    durations = sorted(u.duration_seconds for u in utterances)
    assert longest == sorted(longest)
    assert longest[-1] == pytest.approx(100 * durations[-1], abs=3)
    assert longest[0] < 100 * durations[4] + 3


def test_transcripts_are_made_to_fit_the_alphabet_and_the_recording():
    run = config.resolve(ConfigDict(TINY_RUN))
    utterance = manifest.Utterance(("a.wav",), 1.0, "Zoë's")
    endless = dataclasses.replace(utterance, transcript="a" * 40)
    kept = recordings.trainable(run, ENGLISH, [utterance, endless])
    assert [u.transcript for u in kept] == ["zo's"]


TINY_CASE = training_contest.Case(
    3, 60, 41, 9, ModelConfig(cell="rnn", conv_channels=(4, 4), rnn_units=16)
)


def test_utterances_of_a_contest_are_spread_as_in_librispeech():
    batch = training_contest.Case().batch()
    lengths = batch["feature_lengths"].tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == batch["features"].shape[1]
    assert sum(lengths) / len(lengths) == pytest.approx(12.3 / 16.7 * lengths[0], rel=0.03)


def test_a_whole_step_of_ours_is_measured_without_torch():
    results = training_contest.measure(TINY_CASE, ["float32", "bfloat16"], 1, None)
    assert [(r.name, r.group, r.is_ours) for r in results if r.times] == [
        (f"native, {sharing} input weights {precision}", precision, True)
        for precision in ("float32", "bfloat16")
        for sharing in ("own", "shared")
    ]
    assert contest.table("tiny", results).count("not installed") == 2


def test_a_step_tells_its_peak_memory():
    rows = training_contest.memory_rows(TINY_CASE, ["float32"], "", 1)
    assert [row.metric for row in rows] == ["peak MiB"] * 2
    assert all(0 < row.ours < 2000 for row in rows)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch isn't installed")
def test_a_whole_step_is_measured_in_each_form_of_torch():
    with torch_client.start("", 1) as torch:
        results = training_contest.measure(TINY_CASE, ["float32", "bfloat16"], 1, torch)
    peers = [r.name for r in results if not r.is_ours and r.times.cpu_seconds > 0]
    assert len(peers) == 8
    assert "torch packed channels-last bfloat16" in peers


def test_actions_take_turns():
    order = []
    actions = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    times = measurement.in_turn(actions, 2)
    assert "".join(order) == "ababab"
    assert set(times) == {"a", "b"}
    assert times["a"].wall_seconds > 0
    with pytest.raises(ValueError, match=r"^repetitions must be >= 1\. Received: 0$"):
        measurement.in_turn(actions, 0)


def test_usage_errors_are_told_in_a_line():
    assert program_status("bench_training", "--seconds=1") == (
        2,
        "error: --config is required; see --help\n",
    )
    assert program_status("bench_training", "--config=configs/digits.py", "--seconds=long") == (
        2,
        "error: --seconds: could not convert string to float: 'long'; see --help\n",
    )
