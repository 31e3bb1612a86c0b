r"""Measure the recurrent layer and both of the paper's convolutions, forward and backward.

Ours with the native operations, ours with TensorFlow's own, and PyTorch take turns, and medians
count; what is slow is repeated less. The recurrence is bidirectional, from as many inputs as units,
with unshared input weights: the projection and all gradients are included on every side. PyTorch's
convolutions run in both memory layouts; what counts is the better one for each pass. PyTorch
runs in a process of its own, which may have another environment.

Examples:
  python -m tools.bench_recurrence --threads=2
  python -m tools.bench_recurrence --torch_python=/opt/torch/bin/python --json=layers.json
  python -m tools.bench_recurrence --cases=rnn512,conv1 --precision=bfloat16 --threads=1
"""

from absl import flags

from ds2_tf.bin import program

_KNOWN = ("rnn512", "rnn1280", "conv1", "conv2")  # of ds2_tf.benchmarks.layer_costs
_PRECISIONS = ("float32", "bfloat16")

_CASES = flags.DEFINE_list("cases", [*_KNOWN], "What to measure.")
_PRECISION = flags.DEFINE_list("precision", [*_PRECISIONS], "Each is compared with the first too.")
_TORCH = flags.DEFINE_string("torch_python", "", "A Python with PyTorch; by default this one.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 7, "Measurements to take the median of.", 1)
_THREADS = flags.DEFINE_integer("threads", 0, "CPU threads; 0 leaves the number alone.", 0)
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    for flag, known in ((_CASES, _KNOWN), (_PRECISION, _PRECISIONS)):
        if unknown := sorted(set(flag.value) - set(known)):
            raise program.UsageError(f"--{flag.name}: unknown {unknown[0]!r}; known: {known}")
    program.load_tensorflow()
    from ds2_tf.benchmarks import contest, layer_costs, measurement, torch_client

    measurement.limit_threads(_THREADS.value)
    rows = []
    with torch_client.start(_TORCH.value, _THREADS.value) as torch:
        for name in _CASES.value:
            case = layer_costs.CASES[name]
            results = layer_costs.measure(case, _PRECISION.value, _REPETITIONS.value, torch)
            print(contest.table(str(case), results), flush=True)
            rows += contest.rows(str(case), results)
    if _JSON.value:
        measurement.save_rows(rows, _JSON.value)
    return 0


if __name__ == "__main__":
    program.run(main)
