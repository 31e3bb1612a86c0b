"""What a recording is like, measured in one pass of bounded memory: `data_check` judges by it."""

import collections
import concurrent.futures
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator

import numpy as np

from ds2_tf import audio

FULL_SCALE = 0.98
"""A sample of this size or more is at full scale: the largest mu-law sample is 0.9803."""

SOUND_DBFS = -60.0
"""A window whose RMS (its mean taken off) exceeds this holds sound. Speech recorded so softly that
it had to be amplified 100 times (40 dB) still does; the noise of most silent rooms does not."""

WINDOW_SECONDS = 0.02
_BLOCK_SECONDS = 30.0
_PENDING_PER_THREAD = 4


@dataclasses.dataclass(frozen=True, slots=True)
class AudioFacts:
    """What one pass over a recording tells.

    Attributes:
      num_samples: at the file's own rate, S.
      sample_rate_hz: the file's own rate.
      digest: of the rate and the samples, mono: equal for equal sound, whatever the container.
      num_full_scale: samples of size >= `FULL_SCALE`.
      num_windows: whole windows of 20 ms; a shorter recording counts as one.
      num_sound_windows: those louder than `SOUND_DBFS`.
      is_zero: every sample is 0.
    """

    num_samples: int
    sample_rate_hz: int
    digest: bytes
    num_full_scale: int
    num_windows: int
    num_sound_windows: int
    is_zero: bool

    @property
    def duration_seconds(self) -> float:
        """Length of the recording."""
        return self.num_samples / self.sample_rate_hz

    def num_samples_at(self, sample_rate_hz: int) -> int:
        """Returns how many samples `audio.load` gives at another rate: S * rate / own, rounded."""
        own = self.sample_rate_hz
        return (2 * self.num_samples * sample_rate_hz + own) // (2 * own)


def measure(path: str) -> AudioFacts:
    """Decodes a recording once, block by block, at its own rate.

    Raises:
      AudioError: naming the file, the reason and the remedy.
    """
    rate = audio.probe(path).sample_rate_hz
    window = max(1, round(rate * WINDOW_SECONDS))
    digest = hashlib.blake2b(str(rate).encode(), digest_size=16)
    num_samples = num_full_scale = num_windows = num_sound_windows = 0
    peak = 0.0
    for block in audio.blocks(path, rate, _BLOCK_SECONDS):
        num_samples += len(block)
        digest.update(np.ascontiguousarray(block).data)
        size = np.abs(block)
        peak = max(peak, float(size.max()))
        num_full_scale += int(np.count_nonzero(size >= FULL_SCALE))
        # A block holds whole windows, but for the end of the recording.
        windows = _windows(block, window, whole=num_windows > 0)
        num_windows += len(windows)
        num_sound_windows += int(np.count_nonzero(windows.std(axis=1) > 10 ** (SOUND_DBFS / 20)))
    return AudioFacts(
        num_samples=num_samples,
        sample_rate_hz=rate,
        digest=digest.digest(),
        num_full_scale=num_full_scale,
        num_windows=num_windows,
        num_sound_windows=num_sound_windows,
        is_zero=peak == 0.0,
    )


def measure_all(
    paths: Iterable[str], num_threads: int | None = None
) -> Iterator[tuple[str, AudioFacts | audio.AudioError]]:
    """Yields each path with its facts, or with the error that it raised, in the order of `paths`.

    Files are decoded in threads (the decoder and NumPy release the interpreter lock), a few ahead
    of the consumer, so memory does not grow with the number of files.
    """
    num_threads = num_threads or min(8, os.cpu_count() or 1)
    pending: collections.deque[tuple[str, concurrent.futures.Future]] = collections.deque()
    pool = concurrent.futures.ThreadPoolExecutor(num_threads, "audio_facts")
    try:
        for path in paths:
            pending.append((path, pool.submit(_measure_or_error, path)))
            if len(pending) >= _PENDING_PER_THREAD * num_threads:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _measure_or_error(path: str) -> AudioFacts | audio.AudioError:
    try:
        return measure(path)
    except audio.AudioError as error:
        return error
    except Exception as error:
        error.add_note(f"while decoding {path}")
        raise


def _windows(block: np.ndarray, window: int, whole: bool) -> np.ndarray:
    """Returns the block's whole windows [n, window]; all of a short first block as one."""
    count = len(block) // window
    if count == 0 and not whole:
        return block[np.newaxis]
    return block[: count * window].reshape(count, window)
