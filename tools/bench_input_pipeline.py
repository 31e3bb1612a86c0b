r"""Measure the input pipeline, alone and beside training.

Alone: the CPU seconds for an hour of audio, decoded from WAV, FLAC, MP3 and Opus copies of the same
recordings (mono, at the model's rate, in a temporary folder), with and without augmentation.
Beside training: the share of time that the training steps wait for their batches, with files that
the operating system has not read before (cold) and with files that it has (cached).

Examples:
  python -m tools.bench_input_pipeline --config=configs/librispeech_small.py
  python -m tools.bench_input_pipeline --config=configs/librispeech_small.py \
      --manifest=train.jsonl --minutes=30 --steps=100 --json=input.json
"""

import itertools
import pathlib
import random
import tempfile

from absl import flags
from ml_collections import config_flags

from ds2_tf.bin import program

_CLONE = pathlib.Path(__file__).parents[1]
_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "A file of configs/; single keys: --config.model.rnn_units=64."
)
_MANIFEST = flags.DEFINE_string(
    "manifest",
    str(_CLONE / "tests" / "data" / "librispeech" / "manifest.jsonl"),
    "The recordings; repeated when they are few.",
)
_FORMATS = flags.DEFINE_list("formats", ["wav", "flac", "mp3", "opus"], "Of the copies.")
_MINUTES = flags.DEFINE_float("minutes", 20.0, "Of audio, in each format.", 0.01)
_STEPS = flags.DEFINE_integer("steps", 40, "Training steps; 0 measures the pipeline alone.", 0)
_REPETITIONS = flags.DEFINE_integer("repetitions", 3, "Measurements to take the median of.", 1)
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if _CONFIG.value is None:
        raise program.UsageError("--config is required")
    program.load_tensorflow()
    from ds2_tf import config, manifest
    from ds2_tf.benchmarks import input_costs, measurement, recordings

    if unknown := sorted(set(_FORMATS.value) - set(recordings.FORMATS)):
        known = ", ".join(recordings.FORMATS)
        raise program.UsageError(f"--formats: unknown {unknown[0]!r}; known: {known}")
    run = config.resolve(_CONFIG.value.copy_and_resolve_references())
    case = pathlib.Path(config_flags.get_config_filename(flags.FLAGS["config"])).stem
    listed = manifest.read(_MANIFEST.value)
    alphabet = config.make_alphabet(run.alphabet, [u.transcript for u in listed])
    usable = recordings.trainable(run, alphabet, listed)
    print(
        f"{len(listed) - len(usable)} of {len(listed)} rows cannot be trained on and are left out"
    )
    random.Random(run.training.seed).shuffle(usable)
    rate_hz = run.features.sample_rate_hz
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        chosen = recordings.lasting(usable, 60 * _MINUTES.value)
        formats = {
            each: recordings.copies(chosen, each, rate_hz, folder) for each in _FORMATS.value
        }
        costs = input_costs.cpu_seconds_an_hour(run, alphabet, formats, _REPETITIONS.value)
        rows = input_costs.cost_rows(case, costs)
        if _STEPS.value:
            needed = _STEPS.value * run.batches.batch_size
            chosen = list(itertools.islice(itertools.cycle(usable), needed))
            if needed > len(usable):  # A file that was read before is not cold.
                chosen = recordings.copies(chosen, "flac", rate_hz, folder)
            waits = input_costs.waits(run, alphabet, chosen, _STEPS.value)
            rows += input_costs.wait_rows(case, waits)
    print(measurement.table(rows))
    if _JSON.value:
        measurement.save_rows(rows, _JSON.value)
    return 0


if __name__ == "__main__":
    program.run(main)
