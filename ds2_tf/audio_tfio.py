"""Decoding inside a TensorFlow graph with the native ops of tensorflow-io, where these load.

tensorflow-io 0.37.1, its last release, works with TensorFlow 2.16 and 2.17 only (the extra
`[tfio]`); elsewhere `available` is False and `audio.load` decodes. Both give the same samples.
"""

import functools
import hashlib
import io
import pathlib
import struct
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import soxr
import tensorflow as tf

from ds2_tf import audio
from ds2_tf.containers import check, flac, wav
from ds2_tf.containers.container_error import ContainerError
from ds2_tf.errors import UserError

# The branches of the graph: which native op decodes, to which type; or none does.
_PYTHON, _WAV_8, _WAV_16, _WAV_24, _WAV_FLOAT, _FLAC_16, _FLAC_24 = range(7)
_WAV_BRANCHES = {
    (wav.PCM, 8): _WAV_8,
    (wav.PCM, 16): _WAV_16,
    (wav.PCM, 24): _WAV_24,
    (wav.FLOAT, 32): _WAV_FLOAT,
}
_FLAC_BRANCHES = {16: _FLAC_16, 24: _FLAC_24}


@functools.cache
def available() -> bool:
    """Returns whether a native op of tensorflow-io decodes a sound here; prints nothing."""
    sound = struct.pack(
        "<4sI4s4sIHHIIHH4sIhh",
        *(b"RIFF", 40, b"WAVE", b"fmt ", 16, wav.PCM, 1, 8000, 16000, 2, 16),
        *(b"data", 4, 1, -1),
    )
    try:
        decoded = _tfio().audio.decode_wav(sound, dtype=tf.int16)
        return bool(np.array_equal(decoded, [[1], [-1]]))
    except Exception:  # No such package, a missing symbol, an op that fails: all mean no.
        return False


class Decoded:
    """What the graph decoded of some files, to be read like files.

    Attributes:
      errors: of files that could not be used, by path; filled while the graph runs.
    """

    def __init__(self) -> None:
        self.errors: dict[str, audio.AudioError] = {}

    def decode(self, paths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns what `reader` takes: samples of all files, their numbers [N] and rates [N].

        Args:
          paths: [N] string.
        """
        samples, rates = tf.map_fn(
            lambda path: decode(path, self.errors),
            paths,
            fn_output_signature=(
                tf.RaggedTensorSpec([None], tf.float32, 0),
                tf.TensorSpec([], tf.int32),
            ),
        )
        return samples.values, tf.cast(samples.row_lengths(), tf.int32), rates

    def reader(
        self, paths: Sequence[str], samples: np.ndarray, lengths: np.ndarray, rates: np.ndarray
    ) -> Callable[[str, int], np.ndarray]:
        """Returns a function that stands for `audio.load` for the decoded paths."""
        parts = np.split(samples, np.cumsum(lengths))[:-1]
        decoded = dict(zip(paths, zip(parts, rates.tolist(), strict=True), strict=True))

        def read(path: str, sample_rate_hz: int) -> np.ndarray:
            if path in self.errors:
                raise self.errors[path]
            part, rate = decoded[path]
            return part if rate == sample_rate_hz else soxr.resample(part, rate, sample_rate_hz)

        return read


def decode(
    path: tf.Tensor, errors: dict[str, audio.AudioError] | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the samples of a file as `audio.load` gives them, at the file's own rate.

    Native ops decode wav (8, 16 and 24 bit, float) and flac (16 and 24 bit) whose headers hold
    true. What tensorflow-io does not read or gets wrong goes through `audio.load` from within the
    graph: other formats, wav of 32 bit integers (read as floats), a damaged flac frame (becomes
    silence), a header that claims too many samples (never ends). So the graph runs in the
    process that built it only.

    Args:
      path: string scalar.
      errors: takes the error of a file that cannot be used, by its path; such a file gives no
        samples then.

    Returns:
      Samples [S] float32, mono, and the rate in Hz, an int32 scalar.

    Raises:
      UserError: where the native ops do not load.
      tf.errors.OpError: when run without `errors`, for a file that cannot be used; its message
        names the file.
    """
    if not available():
        raise UserError(
            "tensorflow-io: its native ops do not load; install the extra [tfio] with TensorFlow "
            "2.17, or decode with audio.load"
        )
    ops = _tfio().audio
    branch, rate, md5 = tf.numpy_function(
        _inspect, [path], (tf.int32, tf.int32, tf.string), stateful=False
    )

    def in_python() -> tuple[tf.Tensor, tf.Tensor]:
        return _decode_in_python(path, errors)

    def native_wav(dtype: tf.DType) -> Any:
        return lambda: _usable_or(
            in_python, ops.decode_wav(tf.io.read_file(path), dtype=dtype), rate, md5
        )

    def native_flac(dtype: tf.DType) -> Any:
        return lambda: _usable_or(
            in_python, ops.decode_flac(tf.io.read_file(path), dtype=dtype), rate, md5
        )

    samples, rate = tf.switch_case(
        branch,
        {
            _PYTHON: in_python,
            _WAV_8: native_wav(tf.uint8),
            _WAV_16: native_wav(tf.int16),
            _WAV_24: native_wav(tf.int32),
            _WAV_FLOAT: native_wav(tf.float32),
            _FLAC_16: native_flac(tf.int16),
            _FLAC_24: native_flac(tf.int32),
        },
    )
    return tf.ensure_shape(samples, [None]), tf.ensure_shape(rate, [])


def _tfio() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow_io
    return tensorflow_io


def _inspect(path: bytes) -> tuple[np.int32, np.int32, bytes]:
    """Returns the branch for a file, its rate in Hz and, of flac, its samples' MD5 in hex."""
    python = np.int32(_PYTHON), np.int32(0), b""
    try:
        content = pathlib.Path(path.decode()).read_bytes()
        verdict = check.check(io.BytesIO(content), len(content))
    except (OSError, ContainerError):
        return python
    if verdict.splice is not None:
        return python
    if (found := verdict.wav_format) is not None and found.data_bytes:
        branch = _WAV_BRANCHES.get((found.tag, found.bits), _PYTHON)
        return np.int32(branch), np.int32(found.sample_rate_hz), b""
    if (info := verdict.flac_info) is not None and any(info.md5):
        tail = content[-flac.TAIL_BYTES :]
        is_whole = flac.count_by_last_frame(tail, info) == info.num_frames
        branch = _FLAC_BRANCHES.get(info.bits, _PYTHON) if is_whole else _PYTHON
        return np.int32(branch), np.int32(info.sample_rate_hz), info.md5.hex().encode()
    return python


def _mono(decoded: tf.Tensor) -> tf.Tensor:
    """[S, channels] of any type -> [S] float32 in [-1, 1]."""
    samples = tf.cast(decoded, tf.float32)
    if decoded.dtype == tf.uint8:
        samples = (samples - 128.0) / 128.0
    elif decoded.dtype != tf.float32:
        samples /= -float(decoded.dtype.min)
    return tf.reduce_mean(samples, axis=1)


def _usable_or(
    in_python: Callable[[], tuple[tf.Tensor, tf.Tensor]],
    decoded: tf.Tensor,
    rate: tf.Tensor,
    md5: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Leaves it to `audio.load` to tell what is wrong with samples that are."""
    samples = _mono(decoded)
    is_usable = tf.reduce_all(tf.math.is_finite(samples)) & (tf.size(samples) > 0)
    is_usable &= tf.numpy_function(_matches, [decoded, md5], tf.bool, stateful=False)
    return tf.cond(is_usable, lambda: (samples, rate), in_python)


def _matches(decoded: np.ndarray, md5: bytes) -> np.bool_:
    """Compares with a flac file's checksum, of its samples as little-endian integers."""
    packed = decoded if decoded.dtype == np.int16 else decoded.view(np.uint8).reshape(-1, 4)[:, 1:]
    return np.bool_(not md5 or hashlib.md5(packed.tobytes()).hexdigest() == md5.decode())


def _decode_in_python(
    path: tf.Tensor, errors: dict[str, audio.AudioError] | None
) -> tuple[tf.Tensor, tf.Tensor]:
    def decode_file(encoded: bytes) -> tuple[np.ndarray, np.int32]:
        name = encoded.decode()
        try:
            rate_hz = audio.probe(name).sample_rate_hz
            return audio.load(name, rate_hz), np.int32(rate_hz)
        except audio.AudioError as error:
            if errors is None:
                raise
            errors[name] = error
            return np.zeros(0, np.float32), np.int32(1)

    samples, rate = tf.numpy_function(decode_file, [path], (tf.float32, tf.int32))
    return samples, rate
