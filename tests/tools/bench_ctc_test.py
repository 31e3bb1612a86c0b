import importlib.util
import itertools
import json
import sys

import numpy as np
import pytest

from ds2_tf.benchmarks import contest, ctc_costs, ctc_reference, measurement, torch_client
from ds2_tf.benchmarks.contest import Result
from ds2_tf.benchmarks.measurement import Row, Times
from ds2_tf.errors import UserError
from tests.benchmark_run import program_status


def loss(logits, labels):
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        if [symbol for symbol, _ in itertools.groupby(path) if symbol] == list(labels):
            total += np.prod(probabilities[range(len(path)), path])
    return -np.log(total)


def test_the_reference_is_the_derivative_of_the_enumeration():
    generator = np.random.default_rng(0)
    logits, labels = generator.standard_normal((2, 4, 3)), np.array([[1, 1], [2, 1]])
    found = ctc_reference.gradient(logits, labels)
    for index in np.ndindex(logits.shape):
        difference = np.zeros(logits.shape)
        difference[index] = 1e-5
        row = index[0]
        above, below = (
            loss(x[row], labels[row]) for x in (logits + difference, logits - difference)
        )
        assert found[index] == pytest.approx((above - below) / 2e-5, abs=1e-8)


def test_all_contenders_find_the_gradient_and_torch_may_be_missing(tmp_path):
    case = ctc_costs.Case(3, 20, 5, 4)
    results = ctc_costs.measure(case, 1, None)
    *here, torch = results
    assert [r.is_ours for r in results] == [True] + [False] * 5
    assert all(r.gradient_error < 1e-4 and r.times.wall_seconds > 0 for r in here)
    assert results[0].gradient_error < 2e-6
    assert torch.times is None
    assert contest.table(str(case), results).splitlines()[-1].split()[-2:] == ["not", "installed"]
    rows = contest.rows(str(case), results)
    measurement.save_rows(rows, tmp_path / "rows.json")
    assert [Row(**row) for row in json.loads((tmp_path / "rows.json").read_text())] == rows
    assert [row.metric for row in rows] == ["CPU seconds", "wall seconds", "largest gradient error"]


def test_rows_name_the_fastest_peer_of_each_group():
    results = [
        Result("ours", Times(1.0, 2.0), is_ours=True),
        Result("half", Times(0.5, 0.5), group="bfloat16", is_ours=True),
        Result("a", Times(3.0, 8.0)),
        Result("b", Times(4.0, 6.0)),
        Result("c", Times(1.0, 1.0), group="bfloat16"),
        Result("d", None),
    ]
    assert contest.rows("case", results) == [
        Row("case, ours", "CPU seconds", 2.0, "b", 6.0, 3.0),
        Row("case, ours", "wall seconds", 1.0, "a", 3.0, 3.0),
        Row("case, half", "CPU seconds", 0.5, "c", 1.0, 2.0),
        Row("case, half", "wall seconds", 0.5, "c", 1.0, 2.0),
        Row("case, half", "CPU seconds", 0.5, "b", 6.0, 12.0),
        Row("case, half", "wall seconds", 0.5, "a", 3.0, 6.0),
    ]


def test_the_slow_take_fewer_turns():
    order = []

    def timer(name, seconds):
        order.append(name)
        return Times(seconds, seconds)

    timers = {"fast": lambda: timer("f", 1.0), "slow": lambda: timer("s", 9.0)}
    assert contest.in_turn(timers, 6)["slow"] == Times(9.0, 9.0)
    assert "".join(order) == "fs" + "ffff" + "fs" + "f"
    with pytest.raises(ValueError, match=r"^repetitions must be >= 1\. Received: 0$"):
        contest.in_turn(timers, 0)


def start_and_stop(python):
    with torch_client.start(python, 0) as client:
        return client


def test_a_python_without_torch_is_told():
    with pytest.raises(UserError, match="no/python: No such file"):
        start_and_stop("/no/python")
    if importlib.util.find_spec("torch") is None:
        with pytest.raises(UserError, match="PyTorch's process: it ended"):
            start_and_stop(sys.executable)
        assert start_and_stop("") is None


def test_usage_errors_are_told_in_a_line():
    assert program_status("bench_ctc", "--cases=words") == (
        2,
        "error: --cases: unknown 'words'; known: ('letters', 'characters', 'peaky'); see --help\n",
    )
