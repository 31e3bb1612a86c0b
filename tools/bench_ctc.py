r"""Measure the CTC loss with its gradient: ours, TensorFlow's, Keras's and PyTorch's.

All take turns on the same logits, in the layout that suits each, and medians count; what is slow
is repeated less. The gradient of some utterances is compared with a float64 reference. PyTorch
runs in a process of its own, which may have another environment.

Examples:
  python -m tools.bench_ctc --threads=2
  python -m tools.bench_ctc --torch_python=/opt/torch/bin/python --threads=1 --json=ctc.json
  python -m tools.bench_ctc --cases=characters --nodense --repetitions=11
"""

from absl import flags

from ds2_tf.bin import program

_KNOWN = ("letters", "characters", "peaky")  # of ds2_tf.benchmarks.ctc_costs

_CASES = flags.DEFINE_list("cases", [*_KNOWN], "What to measure.")
_TORCH = flags.DEFINE_string("torch_python", "", "A Python with PyTorch; by default this one.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 7, "Measurements to take the median of.", 1)
_THREADS = flags.DEFINE_integer("threads", 0, "CPU threads; 0 leaves the number alone.", 0)
_DENSE = flags.DEFINE_bool("dense", True, "Measure the slow ones too, which take dense labels.")
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if unknown := sorted(set(_CASES.value) - set(_KNOWN)):
        raise program.UsageError(f"--cases: unknown {unknown[0]!r}; known: {_KNOWN}")
    program.load_tensorflow()
    from ds2_tf.benchmarks import contest, ctc_costs, measurement, torch_client

    measurement.limit_threads(_THREADS.value)
    rows = []
    with torch_client.start(_TORCH.value, _THREADS.value) as torch:
        for name in _CASES.value:
            case = ctc_costs.CASES[name]
            results = ctc_costs.measure(case, _REPETITIONS.value, torch, dense=_DENSE.value)
            print(contest.table(str(case), results), flush=True)
            rows += contest.rows(str(case), results)
    if _JSON.value:
        measurement.save_rows(rows, _JSON.value)
    return 0


if __name__ == "__main__":
    program.run(main)
