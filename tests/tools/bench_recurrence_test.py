import pytest

from ds2_tf.benchmarks import contest, layer_costs
from ds2_tf.benchmarks.layer_costs import ConvolutionCase, RecurrenceCase
from ds2_tf.benchmarks.measurement import Times
from tests.benchmark_run import program_status

CASES = [
    RecurrenceCase(2, 5, 8),
    ConvolutionCase((2, 9, 11, 1), (3, 5, 1, 4), (2, 2)),
    ConvolutionCase((2, 9, 11, 4), (3, 5, 4, 4), (1, 2)),
]


class FakeTorch:
    def __init__(self):
        self.kept = {}

    def prepare(self, name, kind, **arguments):
        self.kept[name] = (kind, arguments)
        fast = {"forward": "NCHW", "input gradient": "NCHW", "kernel gradient": "channels-last"}
        seconds = 1 if fast.get(arguments.get("only"), "") in name else 2
        return lambda: Times(seconds, 2 * seconds)

    def forget(self, name):
        del self.kept[name]


@pytest.mark.parametrize("case", CASES)
def test_without_torch_ours_is_compared_with_tensorflow(case):
    results = layer_costs.measure(case, ["float32", "bfloat16"], 1, None)
    assert [r.name for r in results if r.times] == [
        "native float32",
        "TensorFlow float32",
        "native bfloat16",
        "TensorFlow bfloat16",
    ]
    assert contest.table(str(case), results).count("not installed") == 2
    rows = contest.rows(str(case), results)
    assert [(row.metric, row.best_peer) for row in rows if row.metric == "CPU seconds"] == [
        ("CPU seconds", "TensorFlow float32"),
        ("CPU seconds", "TensorFlow bfloat16"),
        ("CPU seconds", "TensorFlow float32"),
    ]


@pytest.mark.parametrize(("case", "best"), [(CASES[0], None), (CASES[1], 2), (CASES[2], 3)])
def test_torch_counts_with_the_best_layout_of_each_pass(case, best):
    torch = FakeTorch()
    times = {r.name: r.times for r in layer_costs.measure(case, ["float32"], 1, torch)}
    assert not torch.kept
    if best is None:
        assert times["torch float32"] == Times(1, 2)
    else:
        assert times["torch, best layout of each pass float32"] == Times(best, 2 * best)
        assert times["torch NCHW float32"] == Times(best + 1, 2 * best + 2)


def test_usage_errors_are_told_in_a_line():
    assert program_status("bench_recurrence", "--precision=float8") == (
        2,
        "error: --precision: unknown 'float8'; known: ('float32', 'bfloat16'); see --help\n",
    )
