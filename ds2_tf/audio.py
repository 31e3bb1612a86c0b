"""Sound files to samples at the model's rate.

libsndfile decodes wav, flac, ogg (opus, vorbis), mp3 and more; soxr resamples. Nothing changes the
level: float files, lossy codecs and resampling may pass 1.0 a little.
"""

import contextlib
import dataclasses
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import soundfile
import soxr

from ds2_tf.containers import check
from ds2_tf.containers.container_error import ContainerError
from ds2_tf.containers.splice import SplicedFile
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

Source = str | os.PathLike | bytes | BinaryIO

REASONS = ("missing", "html", "empty", "unreadable", "truncated", "bad_header")
_REMEDIES = {
    "missing": "check the path",
    "html": "download the recording itself",
    "empty": "record it again or remove it",
    "unreadable": "convert it with `ffmpeg -i FILE NEW.wav`",
    "truncated": "copy or download it again",
    "bad_header": "write it again with `ffmpeg -i FILE NEW.wav`",
}
_READ_FRAMES = 1 << 16
_MAX_FRAMES = 1 << 48  # libsndfile gives 2**63 - 1 for a length that the header leaves open.
_MP3_SLACK_FRAMES = 2 * 1152  # Encoder delay and padding are counted in several ways.
_RATES_HZ = (1000, 1_000_000)


class AudioError(UserError):
    """A recording that cannot be used.

    Attributes:
      name: the file.
      reason: one of `REASONS`.
      detail: what is wrong with it.
      remedy: what to do about it.
    """

    def __init__(self, name: str, reason: str, detail: str, remedy: str = "") -> None:
        remedy = remedy or _REMEDIES[reason]
        super().__init__(name, reason, detail, remedy)
        self.name, self.reason, self.detail, self.remedy = name, reason, detail, remedy

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}; {self.remedy}".replace("\n", "\\n")


@dataclasses.dataclass(frozen=True)
class AudioInfo:
    """What a sound file says of itself; `num_frames` counts samples of one channel."""

    sample_rate_hz: int
    num_channels: int
    num_frames: int
    format: str
    subtype: str


def load(source: Source, sample_rate_hz: int) -> np.ndarray:
    """Returns the samples [S] float32, in [-1, 1], mono (mean of the channels).

    Args:
      source: a path, the bytes of a file, or a binary file object (read from its start).
      sample_rate_hz: of the result; other rates are resampled by soxr at high quality, a
        linear-phase filter that leaves no alias above -100 dB.

    Raises:
      AudioError: naming the file, the reason and the remedy.
    """
    _check_rate(sample_rate_hz)
    return np.concatenate(list(_stream(source, sample_rate_hz)))


def blocks(source: Source, sample_rate_hz: int, block_seconds: float) -> Iterator[np.ndarray]:
    """Yields the samples of `load`, bit for bit, in blocks of `block_seconds`; the last is shorter.

    Memory stays bounded whatever the length. A file object that cannot seek (a pipe) is copied to a
    temporary file first. A damaged flac file may give blocks before its error is raised.

    Raises:
      AudioError: as `load`.
    """
    _check_rate(sample_rate_hz)
    block_samples = round(block_seconds * sample_rate_hz)
    if block_samples < 1:
        raise ValueError(f"block_seconds must hold a sample. Received: {block_seconds}")
    return _rechunk(_stream(source, sample_rate_hz), block_samples)


def load_utterance(
    utterance: Utterance,
    sample_rate_hz: int,
    read: Callable[[str, int], np.ndarray] = load,
) -> np.ndarray:
    """Returns the samples [S] of all parts of an utterance, with silence for its pauses.

    Args:
      utterance: its parts and pauses.
      sample_rate_hz: of the result.
      read: gives the samples of a part, as `load` does.

    Raises:
      AudioError: for the first part that cannot be used; it names the manifest's line too.
    """
    pauses = utterance.pauses_seconds or (0.0,) * (len(utterance.audio_paths) - 1)
    pieces = []
    for path, pause in zip(utterance.audio_paths, (*pauses, 0.0), strict=True):
        try:
            pieces.append(read(path, sample_rate_hz))
        except AudioError as error:
            where = f"{utterance.manifest}:{utterance.line}: " if utterance.line else ""
            raise AudioError(
                where + error.name, error.reason, error.detail, error.remedy
            ) from error
        pieces.append(np.zeros(round(pause * sample_rate_hz), np.float32))
    return np.concatenate(pieces)


def probe(source: Source) -> AudioInfo:
    """Returns what the header says, after the same checks as `load`.

    Nothing is decoded, except of a flac file whose header leaves the length open.

    Raises:
      AudioError: when the file is missing, no sound file, or its header is wrong.
    """
    with _open(source) as recording:
        sound, num_frames = recording.sound, recording.num_frames
        if num_frames is None:
            num_frames = sum(map(len, _decode(recording)))
        return AudioInfo(sound.samplerate, sound.channels, num_frames, sound.format, sound.subtype)


def _check_rate(sample_rate_hz: int) -> None:
    if sample_rate_hz < 1:
        raise ValueError(f"sample_rate_hz must be >= 1. Received: {sample_rate_hz}")


class _ForwardSoundFile(soundfile.SoundFile):
    """Reads without seeking.

    The base class seeks after every read, which costs time in compressed files and fails at the end
    of a flac file whose header leaves the length open.
    """

    def seekable(self) -> bool:
        return False


@dataclasses.dataclass(frozen=True)
class _Recording:
    """An open file; `num_frames` is None when only decoding can tell."""

    name: str
    sound: soundfile.SoundFile
    num_frames: int | None


def _stream(source: Source, sample_rate_hz: int) -> Iterator[np.ndarray]:
    """Yields mono float32 samples at the wanted rate, in pieces of any size."""
    with _open(source) as recording:
        rate_hz = recording.sound.samplerate
        if rate_hz == sample_rate_hz:
            yield from _decode(recording)
            return
        resampler = soxr.ResampleStream(rate_hz, sample_rate_hz, 1, dtype="float32", quality="HQ")
        for samples in _decode(recording):
            yield resampler.resample_chunk(samples)
        yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def _decode(recording: _Recording) -> Iterator[np.ndarray]:
    """Yields the file's samples, mono; raises when they are fewer than the header says."""
    name, claimed = recording.name, recording.num_frames
    num_frames = 0
    while True:
        try:
            block = recording.sound.read(_READ_FRAMES, dtype="float32", always_2d=True)
        except soundfile.SoundFileError as error:
            raise _short(recording) from error
        if not len(block):
            break
        if not np.isfinite(block).all():
            raise AudioError(name, "unreadable", "holds samples that are not finite numbers")
        num_frames += len(block)
        yield block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)
    if not num_frames:
        raise AudioError(name, "empty", "holds no samples")
    slack = _MP3_SLACK_FRAMES if recording.sound.format == "MP3" else 0
    if claimed is not None and num_frames < claimed - slack:
        raise _short(recording)


def _short(recording: _Recording) -> AudioError:
    known = recording.num_frames is not None
    length = (
        f"its {recording.num_frames / recording.sound.samplerate:.2f} seconds" if known else "it"
    )
    detail = f"is cut off or damaged: {length} cannot be decoded to the end"
    return AudioError(recording.name, "truncated", detail)


@contextlib.contextmanager
def _open(source: Source) -> Iterator[_Recording]:
    """Opens a sound file after checking its container."""
    with contextlib.ExitStack() as stack:
        name, file = _open_bytes(source, stack)
        num_bytes = file.seek(0, os.SEEK_END)
        if not num_bytes:
            raise AudioError(name, "empty", "is an empty file")
        try:
            verdict = check.check(file, num_bytes)
            readable = SplicedFile(file, num_bytes, verdict.splice)
            sound = stack.enter_context(_ForwardSoundFile(readable))
        except ContainerError as error:
            raise AudioError(name, error.reason, str(error)) from error
        except soundfile.SoundFileError as error:
            raise _unreadable(name, file, error) from error
        except OSError as error:
            raise _refused(name, error) from error
        low, high = _RATES_HZ
        if not low <= sound.samplerate <= high:
            raise AudioError(name, "bad_header", f"claims a sample rate of {sound.samplerate} Hz")
        is_open = sound.frames > _MAX_FRAMES
        yield _Recording(name, sound, verdict.num_frames or (None if is_open else sound.frames))


def _open_bytes(source: Source, stack: contextlib.ExitStack) -> tuple[str, BinaryIO]:
    """Returns the source's name and a file that can seek."""
    if isinstance(source, bytes | bytearray | memoryview):
        return f"<{len(source)} bytes>", io.BytesIO(source)
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        file = _open_path(name, stack)
    else:
        name = str(getattr(source, "name", "<file object>"))
        file = source
    if file.seekable():
        return name, file
    spool = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    shutil.copyfileobj(file, spool)
    return name, spool


def _open_path(name: str, stack: contextlib.ExitStack) -> BinaryIO:
    try:
        return stack.enter_context(open(name, "rb"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise AudioError(name, "missing", "no such file") from error
    except (OSError, ValueError) as error:
        raise _refused(name, error) from error


def _refused(name: str, error: Exception) -> AudioError:
    why = getattr(error, "strerror", None) or error
    remedy = "name a sound file you may read"
    return AudioError(name, "unreadable", f"cannot be read ({why})", remedy)


def _unreadable(name: str, file: BinaryIO, error: Exception) -> AudioError:
    file.seek(0)
    head = file.read(1024)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"version https://git-lfs"):
        return AudioError(name, "html", "is a Git LFS pointer, not audio", "run `git lfs pull`")
    if start[:1] == b"<":
        return AudioError(name, "html", "is an HTML or XML page, not audio")
    if _is_text(head):
        return AudioError(name, "html", "is text, not audio")
    return AudioError(
        name, "unreadable", f"is not sound that can be read here ({_one_line(error)})"
    )


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character.isspace() for character in text)


def _one_line(error: Exception) -> str:
    return " ".join(str(getattr(error, "error_string", error)).split()).rstrip(".")


def _rechunk(pieces: Iterator[np.ndarray], block_samples: int) -> Iterator[np.ndarray]:
    pending: list[np.ndarray] = []
    num_pending = 0
    for piece in pieces:
        pending.append(piece)
        num_pending += len(piece)
        if num_pending >= block_samples:
            joined = np.concatenate(pending)
            whole = num_pending - num_pending % block_samples
            yield from np.split(joined[:whole], whole // block_samples)
            pending, num_pending = [joined[whole:]], num_pending - whole
    if num_pending:
        yield np.concatenate(pending)
