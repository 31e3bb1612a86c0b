r"""Measure a model on LiteRT in each precision: size, word error rate, speed, memory.

Exports the model of --workdir, and recognises the recordings of the manifests chunk by chunk, as on
a phone, each precision in a process of its own that needs ai-edge-litert and numpy alone. Memory is
what the process takes at most beyond Python and its libraries. Peers are the float32 file.

Examples:
  python -m tools.bench_litert --workdir=runs/digits --calibration=dev.jsonl \
      --manifests=test_known.jsonl,test_unseen.jsonl
  python -m tools.bench_litert --workdir=runs/digits --calibration=dev.jsonl --manifests=dev.jsonl \
      --chunk_ms=200 --litert_python=/opt/litert/bin/python --json=litert.json
"""

import pathlib
import sys
import tempfile

from absl import flags

from ds2_tf.bin import program

_PRECISIONS = ("none", "float16", "dynamic", "int8")  # of export.tflite

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder that `ds2 train` filled.", required=True)
_MANIFESTS = flags.DEFINE_list("manifests", None, "Recordings to recognise.", required=True)
_CALIBRATION = flags.DEFINE_string("calibration", None, "Manifest for int8.", required=True)
_CHUNK_MS = flags.DEFINE_float("chunk_ms", 100, "Sound that a step takes.")
_PYTHON = flags.DEFINE_string("litert_python", "", "A Python with LiteRT; by default this one.")
_THREADS = flags.DEFINE_integer("threads", 1, "CPU threads.", 1)
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    program.load_tensorflow()

    from ds2_tf import audio, manifest
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.benchmarks import litert_costs, measurement
    from export import calibration, tflite

    model = AcousticModel.load(_WORKDIR.value)
    sets = {
        pathlib.Path(path).stem: [
            (audio.load_utterance(utterance, model.sample_rate_hz), utterance.transcript)
            for utterance in manifest.read(path)
        ]
        for path in _MANIFESTS.value
    }
    heard = calibration.load(_CALIBRATION.value, model.sample_rate_hz)
    found: dict[str, dict[str, litert_costs.Result]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for precision in _PRECISIONS:
            path = pathlib.Path(folder, f"{precision}.tflite")
            tflite.export(model, path, precision, _CHUNK_MS.value, heard)
            for name, utterances in sets.items():
                found.setdefault(name, {})[precision] = litert_costs.measure(
                    path,
                    utterances,
                    model.alphabet,
                    model.sample_rate_hz,
                    python=_PYTHON.value or sys.executable,
                    threads=_THREADS.value,
                )
    for name, results in found.items():
        print(litert_costs.table(name, results), flush=True)
    if _JSON.value:
        rows = [row for name, results in found.items() for row in litert_costs.rows(name, results)]
        measurement.save_rows(rows, _JSON.value)
    return 0


if __name__ == "__main__":
    program.run(main)
