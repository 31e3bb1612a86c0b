r"""Measure streaming: the look-ahead, the computing, how late the text comes.

Weights are random, which changes nothing of the costs; a model of --workdir is measured as it is.
By default on one thread. What counts is CPU time on a shared machine; times by the clock are those
of a quiet one.

Examples:
  python -m tools.bench_streaming --config=configs/digits.py:streaming
  python -m tools.bench_streaming --config=configs/ds2_mandarin_deployed.py --num_labels=6000
  python -m tools.bench_streaming --workdir=runs/streaming --chunk_ms=20,100,500 \
      --stream_seconds=600 --json=streaming.json
"""

import pathlib

from absl import flags
from ml_collections import config_flags

from ds2_tf.bin import program

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "A file of configs/; single keys: --config.model.lookahead=19."
)
_WORKDIR = flags.DEFINE_string("workdir", "", "Folder of a trained model, instead of --config.")
_NUM_LABELS = flags.DEFINE_integer("num_labels", 29, "Of the random model, blank included.", 2)
_CHUNK_MS = flags.DEFINE_list("chunk_ms", ["20", "100", "500"], "Lengths of the pieces.")
_STREAM_SECONDS = flags.DEFINE_float("stream_seconds", 30.0, "Length of the stream.", 1.0)
_UTTERANCES = flags.DEFINE_integer("utterances", 20, "Whose ends are timed.", 1)
_THREADS = flags.DEFINE_integer("threads", 1, "CPU threads; 0 leaves the number alone.", 0)
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if bool(_WORKDIR.value) == (_CONFIG.value is not None):
        raise program.UsageError("one of --config and --workdir is required")
    try:
        chunks = [float(text) / 1000 for text in _CHUNK_MS.value]
    except ValueError as error:
        raise program.UsageError(f"--chunk_ms: {error}") from error
    if min(chunks) <= 0:
        raise program.UsageError("--chunk_ms must be > 0")
    program.load_tensorflow()
    import tensorflow as tf

    from ds2_tf import config
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.benchmarks import measurement, streaming_costs
    from ds2_tf.streaming import StreamingModel

    if _THREADS.value:
        tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
        tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
    if _WORKDIR.value:
        case = pathlib.Path(_WORKDIR.value).name
        acoustic_model = AcousticModel.load(_WORKDIR.value)
    else:
        case = pathlib.Path(config_flags.get_config_filename(flags.FLAGS["config"])).stem
        run = config.resolve(_CONFIG.value.copy_and_resolve_references())
        acoustic_model = streaming_costs.random_model(run, _NUM_LABELS.value)
    model = StreamingModel(acoustic_model)
    costs = [
        streaming_costs.measure(model, chunk, _STREAM_SECONDS.value, _UTTERANCES.value)
        for chunk in chunks
    ]
    rows = streaming_costs.rows(case, model, costs)
    print(measurement.table(rows))
    if _JSON.value:
        measurement.save_rows(rows, _JSON.value)
    return 0


if __name__ == "__main__":
    program.run(main)
