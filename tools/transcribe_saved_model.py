"""Transcribes wav files with an exported model; needs nothing but TensorFlow.

It shows all that a program must do to use an export: pad a batch of waveforms, call the signature,
read the text. It takes 16-bit wav files at the model's own sample rate; `ds2 transcribe` takes any.

Example:
  python tools/transcribe_saved_model.py exported/digits first.wav second.wav
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator

import tensorflow as tf

BATCH_SIZE = 16


def transcribe(model_folder: str, wav_paths: list[str]) -> Iterator[tuple[str, str]]:
    """Yields the path and the text of each file.

    Raises:
      ValueError: for a folder or a file that cannot be used; one line that says why.
    """
    try:
        model = tf.saved_model.load(model_folder)
        settings = json.loads(
            pathlib.Path(model_folder, "assets", "config.json").read_text("utf-8")
        )
    except OSError as error:
        raise ValueError(f"{model_folder}: not an exported model; see python -m export") from error
    sample_rate_hz = settings["features"]["sample_rate_hz"]
    for start in range(0, len(wav_paths), BATCH_SIZE):
        paths = wav_paths[start : start + BATCH_SIZE]
        waveforms = tf.ragged.stack([read_wav(path, sample_rate_hz) for path in paths])
        outputs = model.signatures["transcribe"](
            waveform=waveforms.to_tensor(),
            waveform_lengths=tf.cast(waveforms.row_lengths(), tf.int32),
        )
        for path, text in zip(paths, outputs["text"].numpy(), strict=True):
            yield path, text.decode("utf-8")


def read_wav(path: str, sample_rate_hz: int) -> tf.Tensor:
    """Returns the samples [S] float32 of a 16-bit wav file, the mean of its channels.

    Raises:
      ValueError: when the file is missing, no such wav, or at another sample rate.
    """
    try:
        samples, rate = tf.audio.decode_wav(tf.io.read_file(path))
    except tf.errors.NotFoundError as error:
        raise ValueError(f"{path}: not found") from error
    except tf.errors.OpError as error:
        problem = "not a 16-bit wav file"
        raise ValueError(f"{path}: {problem}; {_convert(path, sample_rate_hz)}") from error
    if int(rate) != sample_rate_hz:
        problem = f"has {int(rate)} Hz, the model hears {sample_rate_hz} Hz"
        raise ValueError(f"{path}: {problem}; {_convert(path, sample_rate_hz)}")
    return tf.reduce_mean(samples, axis=1)


def _convert(path: str, sample_rate_hz: int) -> str:
    """Returns the remedy for a file of another kind."""
    converted = pathlib.Path(path).with_suffix(".16bit.wav")
    return f"convert it: ffmpeg -i {path} -ar {sample_rate_hz} -ac 1 -c:a pcm_s16le {converted}"


def main() -> int:
    """Prints each file's path and text, separated by a tab."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model_folder", help="what `python -m export` wrote")
    parser.add_argument("wav", nargs="+", help="16-bit wav file")
    arguments = parser.parse_args()
    try:
        for path, text in transcribe(arguments.model_folder, arguments.wav):
            print(f"{path}\t{text}")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
