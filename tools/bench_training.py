r"""Measure training: steps a second, and what each part of a step costs.

A step is made of features, forward and backward pass, CTC loss, clipping and update, on one device;
decoding and augmentation are the matter of tools.bench_input_pipeline. Each part is measured alone,
too, forward and backward, on the same batches; what the parts don't explain is the rest. Shares
are of CPU seconds (on a GPU, of time by the clock). All is repeated in turn, and medians count.

With --peer a step without features, of a network with two convolutions and three bidirectional
simple recurrences, takes turns with the same in PyTorch, as deepspeech.pytorch orders its layers:
packed and not, in both memory layouts. Then each of them tells its peak memory in a process of its
own. --config and what chooses batches don't count.

Examples:
  python -m tools.bench_training --config=configs/librispeech_small.py
  python -m tools.bench_training --config=configs/librispeech_small.py --manifest=train.jsonl
  python -m tools.bench_training --config=configs/table1.py --seconds=6 --batch_size=16 \
      --precision=float32,bfloat16 --threads=1 --json=training.json
  python -m tools.bench_training --peer --torch_python=/opt/torch/bin/python --threads=1 \
      --precision=float32,bfloat16
"""

import pathlib
from typing import TYPE_CHECKING

from absl import flags
from ml_collections import config_flags

from ds2_tf.bin import program

if TYPE_CHECKING:
    from ds2_tf.benchmarks.measurement import Row

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "A file of configs/; single keys: --config.model.rnn_units=64."
)
_MANIFEST = flags.DEFINE_string("manifest", "", "Recordings to train on; without it, noise.")
_BATCHES = flags.DEFINE_integer("batches", 4, "Batches of the manifest, short to long.", 1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", None, "Utterances; the config's by default.", 1)
_SECONDS = flags.DEFINE_list("seconds", ["4", "8", "12"], "Lengths of the batches of noise.")
_PRECISION = flags.DEFINE_list("precision", ["float32"], "Compared with the first one.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 5, "Measurements to take the median of.", 1)
_THREADS = flags.DEFINE_integer("threads", 0, "CPU threads; 0 leaves the number alone.", 0)
_PEER = flags.DEFINE_bool("peer", False, "Compare with PyTorch.")
_TORCH = flags.DEFINE_string("torch_python", "", "A Python with PyTorch; by default this one.")
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if _CONFIG.value is None and not _PEER.value:
        raise program.UsageError("--config is required")
    try:
        seconds = [float(text) for text in _SECONDS.value]
    except ValueError as error:
        raise program.UsageError(f"--seconds: {error}") from error
    program.load_tensorflow()
    import tensorflow as tf

    from ds2_tf.benchmarks import measurement
    from ds2_tf.model import POLICIES

    if unknown := sorted(set(_PRECISION.value) - set(POLICIES)):
        raise program.UsageError(f"--precision: unknown {unknown[0]!r}; known: {(*POLICIES,)}")
    measurement.limit_threads(_THREADS.value)
    tf.get_logger().setLevel("ERROR")  # It takes each new function for a retraced one.
    rows = _contest() if _PEER.value else _parts(seconds)
    if _JSON.value:
        measurement.save_rows(rows, _JSON.value)
    return 0


def _parts(seconds: list[float]) -> "list[Row]":
    """Measures the step and its parts."""
    from ds2_tf import config, manifest
    from ds2_tf.benchmarks import recordings, training_step

    values = _CONFIG.value.copy_and_resolve_references()
    if _BATCH_SIZE.value:
        values.batches.batch_size = _BATCH_SIZE.value
    run = config.resolve(values)
    utterances = manifest.read(_MANIFEST.value) if _MANIFEST.value else []
    alphabet = config.make_alphabet(run.alphabet, [u.transcript for u in utterances])
    if utterances:
        utterances = recordings.trainable(run, alphabet, utterances)
        batches = training_step.recorded_batches(run, alphabet, utterances, _BATCHES.value)
    else:
        batches = training_step.synthetic_batches(run, alphabet, seconds)
    shapes = [tuple(batch["features"].shape) for batch in batches]
    print(f"batches (utterances, frames, bins): {shapes}", flush=True)
    costs = training_step.measure(run, alphabet, batches, _PRECISION.value, _REPETITIONS.value)
    print(training_step.table(costs))
    case = pathlib.Path(config_flags.get_config_filename(flags.FLAGS["config"])).stem
    return training_step.rows(case, costs)


def _contest() -> "list[Row]":
    """Measures the step beside PyTorch's."""
    from ds2_tf.benchmarks import contest, measurement, torch_client, training_contest

    case = training_contest.Case()
    with torch_client.start(_TORCH.value, _THREADS.value) as torch:
        results = training_contest.measure(case, _PRECISION.value, _REPETITIONS.value, torch)
    print(contest.table(str(case), results), flush=True)
    memory = training_contest.memory_rows(case, _PRECISION.value, _TORCH.value, _THREADS.value)
    print(measurement.table(memory))
    return [*contest.rows(str(case), results), *memory]


if __name__ == "__main__":
    program.run(main)
