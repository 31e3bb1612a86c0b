import json

import pytest

from ds2_tf.benchmarks import streaming_costs
from ds2_tf.streaming import StreamingModel
from tests.benchmark_run import program_status
from tests.streaming_models import make_model


def test_every_length_of_pieces_is_measured():
    model = StreamingModel(make_model({}, {"power_normalization": "running"}))
    costs = [streaming_costs.measure(model, seconds, 0.5, 2) for seconds in (0.05, 0.2)]
    assert [cost.chunk_ms for cost in costs] == [50, 200]
    for cost in costs:
        assert 0 < cost.piece_ms <= cost.piece_98_ms
        assert 0 < cost.text_ms <= cost.text_98_ms
        assert cost.real_time_factor > 0
        assert cost.late_to_early > 0
    rows = streaming_costs.rows("tiny", model, costs)
    found = {(row.case, row.metric): row.ours for row in rows}
    assert len(found) == len(rows) == 2 + 2 * 7
    # 2 + 2 x 1 frames of convolution, 2 x 2 of row convolution, at 10 ms, and a window of 20 ms.
    assert found["tiny", "look-ahead, ms"] == 100
    in_a_stream = found["tiny, pieces of 50 ms", "sample to text in a stream, ms"]
    assert in_a_stream == pytest.approx(100 + 25 + costs[0].piece_ms)


def test_the_program_writes_its_rows(tmp_path):
    path = tmp_path / "rows.json"
    status, errors = program_status(
        "bench_streaming",
        "--config=configs/digits.py:streaming",
        "--chunk_ms=500",
        "--stream_seconds=1",
        "--utterances=1",
        f"--json={path}",
    )
    assert status == 0, errors
    rows = json.loads(path.read_text())
    assert {"case": "digits", "metric": "look-ahead, ms", "ours": 190.0}.items() <= rows[1].items()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one of --config and --workdir is required"),
        (("--workdir=runs/x", "--chunk_ms=0"), "--chunk_ms must be > 0"),
        (("--workdir=runs/x", "--chunk_ms=soon"), "--chunk_ms: could not convert string"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(arguments, message):
    status, errors = program_status("bench_streaming", *arguments)
    assert status == 2
    assert errors.startswith(f"error: {message}")
