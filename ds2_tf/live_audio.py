"""Sound that is still going on: raw samples from a pipe, or a microphone."""

import os
import queue
from collections.abc import Iterator

import numpy as np
import soxr

from ds2_tf.errors import UserError

_READ_BYTES = 1 << 16
# First bytes of files that people pipe instead of raw samples.
_CONTAINERS = {
    b"RIFF": "a wav",
    b"fLaC": "a flac",
    b"OggS": "an ogg",
    b"ID3": "an mp3",
}


def pcm(descriptor: int, rate_hz: int, sample_rate_hz: int) -> Iterator[np.ndarray]:
    """Yields the samples [S] float32 of a pipe as they come: raw 16-bit little-endian, mono.

    Args:
      descriptor: of the open pipe.
      rate_hz: of the pipe.
      sample_rate_hz: of the result.

    Raises:
      UserError: for a sound file instead of raw samples.
    """
    resampler = soxr.ResampleStream(rate_hz, sample_rate_hz, 1, dtype="float32")
    held = b""
    at_start = True
    while data := os.read(descriptor, _READ_BYTES):
        if at_start:
            _reject_containers(data)
            at_start = False
        held += data
        whole = len(held) // 2 * 2
        samples, held = np.frombuffer(held[:whole], "<i2"), held[whole:]
        yield resampler.resample_chunk(samples.astype(np.float32) / 32768)
    yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def microphone(sample_rate_hz: int, block_seconds: float) -> Iterator[np.ndarray]:
    """Yields the samples [S] float32 of the default microphone, until the program is stopped.

    Raises:
      UserError: when there is none, or the package sounddevice is missing.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise UserError(
            f"no microphone ({error}); install PortAudio and the package sounddevice, or pipe "
            f"samples: arecord -q -f S16_LE -r {sample_rate_hz} -c 1 -t raw | ds2 listen ..."
        ) from error
    blocks: queue.SimpleQueue[np.ndarray] = queue.SimpleQueue()

    def put(data: np.ndarray, *_: object) -> None:
        blocks.put(data[:, 0].copy())

    try:
        with sounddevice.InputStream(
            samplerate=sample_rate_hz,
            blocksize=round(block_seconds * sample_rate_hz),
            channels=1,
            dtype="float32",
            callback=put,
        ):
            while True:
                yield blocks.get()
    except sounddevice.PortAudioError as error:
        raise UserError(
            f"the microphone cannot be opened ({error}); choose a default one"
        ) from error


def _reject_containers(data: bytes) -> None:
    for beginning, kind in _CONTAINERS.items():
        if data.startswith(beginning):
            raise UserError(
                f"standard input: is {kind} file, not raw samples; write these by "
                "`ffmpeg ... -f s16le -ac 1 -`, or use `ds2 transcribe` for files"
            )
