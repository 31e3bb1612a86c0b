r"""Measure training: steps a second, and what each part of a step costs.

A step is made of features, forward and backward pass, CTC loss, clipping and update, on one device;
decoding and augmentation are the matter of tools.bench_input_pipeline. Each part is measured alone,
too, forward and backward, on the same batches; what the parts don't explain is the rest. Shares
are of CPU seconds (on a GPU, of time by the clock). All is repeated in turn, and medians count.

Examples:
  python -m tools.bench_training --config=configs/librispeech_small.py
  python -m tools.bench_training --config=configs/librispeech_small.py --manifest=train.jsonl
  python -m tools.bench_training --config=configs/table1.py --seconds=6 --batch_size=16 \
      --precision=float32,bfloat16 --threads=1 --json=training.json
"""

import pathlib

from absl import flags
from ml_collections import config_flags

from ds2_tf.bin import program

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
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if _CONFIG.value is None:
        raise program.UsageError("--config is required")
    try:
        seconds = [float(text) for text in _SECONDS.value]
    except ValueError as error:
        raise program.UsageError(f"--seconds: {error}") from error
    program.load_tensorflow()
    import tensorflow as tf

    from ds2_tf import config, manifest
    from ds2_tf.benchmarks import measurement, recordings, training_step
    from ds2_tf.model import POLICIES

    if unknown := sorted(set(_PRECISION.value) - set(POLICIES)):
        raise program.UsageError(f"--precision: unknown {unknown[0]!r}; known: {(*POLICIES,)}")
    if _THREADS.value:
        tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
        tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
    values = _CONFIG.value.copy_and_resolve_references()
    if _BATCH_SIZE.value:
        values.batches.batch_size = _BATCH_SIZE.value
    tf.get_logger().setLevel("ERROR")  # It takes each new function for a retraced one.
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
    if _JSON.value:
        case = pathlib.Path(config_flags.get_config_filename(flags.FLAGS["config"])).stem
        measurement.save_rows(training_step.rows(case, costs), _JSON.value)
    return 0


if __name__ == "__main__":
    program.run(main)
