r"""Exports a trained model, so that it runs without this project.

saved_model: a folder for TensorFlow Serving, or for a program in any language that can run
TensorFlow. The signature `transcribe` (also `serving_default`) takes `waveform` [B,S] float32 in
[-1,1], padded to the longest, and `waveform_lengths` [B] int32, in samples; it returns `text` [B],
`log_probabilities` [B,T',V] and `lengths` [B]. Models that can follow a stream have `stream_start`
and `stream_step` too. The sample rate and all settings are in assets/config.json. docs/serving.md
tells the whole way to a server.

tflite: a file for LiteRT, on phones. The signatures `stream_step` and `stream_finish` take a stream
in chunks, `transcribe` an utterance of any length; see docs/phones.md and export/litert_client.py.

Examples:
  python -m export --workdir=runs/digits --format=saved_model --output=exported/digits
  python -m export --workdir=runs/digits --output=exported/digits --overwrite --dtype=float16
  python -m export --workdir=runs/digits --output=models/digits --tf_serving   # models/digits/1, /2
  python tools/transcribe_saved_model.py exported/digits recording.wav
  python -m export --workdir=runs/digits --format=tflite --output=digits.tflite
  python -m export --workdir=runs/digits --format=tflite --output=digits.tflite --quantize=int8 \
      --calibration=dev.jsonl --chunk_ms=200
  saved_model_cli show --dir exported/digits --tag_set serve --signature_def transcribe
"""

import os
import pathlib

from absl import flags

from ds2_tf.bin import program

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder that `ds2 train` filled.")
_FORMAT = flags.DEFINE_enum("format", "saved_model", ["saved_model", "tflite"], "What to write.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder to make; a file for tflite.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an export that is there already.")
_DTYPE = flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "float16", "bfloat16"],
    "Type of the stored weights of a SavedModel; they are widened to float32 when it runs.",
)
_TF_SERVING = flags.DEFINE_bool(
    "tf_serving",
    False,
    "--output is a model's folder for TensorFlow Serving: make its next version there (1, 2, ...), "
    "and batching.config if there is none.",
)
_QUANTIZE = flags.DEFINE_enum(
    "quantize",
    "none",
    ["none", "float16", "dynamic", "int8"],
    "tflite: what the weights are stored as; int8 has activations in int8, too.",
)
_CHUNK_MS = flags.DEFINE_float(
    "chunk_ms", 100, "tflite: sound that a step of a stream takes; 0 for no stream."
)
_CALIBRATION = flags.DEFINE_string(
    "calibration", "", "tflite: manifest of recordings such as the int8 model will hear."
)


def main(arguments: list[str]) -> int:
    """Exports the model of --workdir to --output."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    workdir, output = _WORKDIR.value, _OUTPUT.value
    if not workdir or not output:
        raise program.UsageError("--workdir and --output are required")
    if _TF_SERVING.value and _OVERWRITE.value:
        raise program.UsageError("--tf_serving makes a new version, so --overwrite has no use")
    writers = {"saved_model": _write_saved_model, "tflite": _write_tflite}
    writers[_FORMAT.value](workdir, output)
    return 0


def _write_saved_model(workdir: str, output: str) -> None:
    import tensorflow as tf

    from ds2_tf.acoustic_model import AcousticModel
    from export import saved_model, signatures, tf_serving

    tf.get_logger().setLevel("WARNING")
    folder = str(tf_serving.next_version(output)) if _TF_SERVING.value else output
    saved_model.check_output(folder, _OVERWRITE.value)
    model = AcousticModel.load(workdir)
    decoder = pathlib.Path(workdir, "decoder.json")
    saved_model.export(
        model, folder, _OVERWRITE.value, _DTYPE.value, [decoder] if decoder.exists() else []
    )
    mebibytes = saved_model.size_bytes(folder) / 2**20
    print(f"wrote {folder} ({mebibytes:.1f} MiB), to be called with {model.sample_rate_hz} Hz")
    if not signatures.can_stream(model):
        print(
            f"without {signatures.STREAM_START} and {signatures.STREAM_STEP}: the model is "
            "bidirectional and needs the whole recording"
        )
    if _TF_SERVING.value:
        tf_serving.write_batching_config(output)
        print(f"serve it: {tf_serving.docker_command(output)}")
        return
    print(
        f"call it: tf.saved_model.load({output!r}).signatures[{signatures.TRANSCRIBE!r}]"
        "(waveform=..., waveform_lengths=...)['text']"
    )


def _write_tflite(workdir: str, output: str) -> None:
    if _TF_SERVING.value or _DTYPE.value != "float32":
        raise program.UsageError("--tf_serving and --dtype are for --format=saved_model")
    if _QUANTIZE.value == "int8" and not _CALIBRATION.value:
        raise program.UsageError("--quantize=int8 needs --calibration=MANIFEST")
    import tensorflow as tf

    from ds2_tf.acoustic_model import AcousticModel
    from export import calibration, tflite

    tf.get_logger().setLevel("WARNING")
    tflite.check_output(output, _OVERWRITE.value)
    model = AcousticModel.load(workdir)
    waveforms = []
    if _QUANTIZE.value == "int8":
        waveforms = calibration.load(_CALIBRATION.value, model.sample_rate_hz)
    tflite.export(model, output, _QUANTIZE.value, _CHUNK_MS.value, waveforms)
    mebibytes = os.path.getsize(output) / 2**20
    print(f"wrote {output} ({mebibytes:.1f} MiB), to be called with {model.sample_rate_hz} Hz")
    if _CHUNK_MS.value:
        print(f"try it: python export/litert_client.py {output} recording.wav")


if __name__ == "__main__":
    program.run(main)
