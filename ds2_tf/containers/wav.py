"""What a wav file's header claims, and whether the bytes bear it out.

libsndfile shortens a truncated file, reads nothing where a size was left at 0, and believes a wrong
rate, all without a word; so `check` looks first.
"""

import dataclasses
import struct
from typing import BinaryIO

from ds2_tf.containers.container_error import ContainerError
from ds2_tf.containers.splice import Splice

PCM, FLOAT = 1, 3
_A_LAW, _MU_LAW, _EXTENSIBLE = 6, 7, 0xFFFE
_PLAIN_TAGS = (PCM, FLOAT, _A_LAW, _MU_LAW)
# Programs that write to a pipe cannot know the size: they leave 0 or a value near 2 or 4 GiB.
_OPEN_SIZES = (range(0x7FFF0000, 0x80010000), range(0xFFFF0000, 1 << 32))
_MAX_LOOSE_BYTES = 512
_LOOK_BYTES = 1 << 16


@dataclasses.dataclass(frozen=True)
class WavFormat:
    """What the format chunk says, and how many bytes of samples the data chunk claims.

    `tag` is `PCM`, `FLOAT` or another codec's number.
    """

    tag: int
    num_channels: int
    sample_rate_hz: int
    bits: int
    data_bytes: int = 0


def check(file: BinaryIO, num_bytes: int) -> tuple[WavFormat, Splice | None]:
    """Compares the header of a wav file with itself and with the file's size.

    Args:
      file: a seekable file that starts with "RIFF"; its position is changed.
      num_bytes: the size of the file.

    Returns:
      The format, and how to mend a header that leaves the size of the samples open, or None.

    Raises:
      ContainerError: see its reasons.
    """
    position, wav_format = 12, None
    while position + 8 <= num_bytes:
        file.seek(position)
        name, size = struct.unpack("<4sI", file.read(8))
        position += 8
        if name == b"data":
            if wav_format is None:
                raise ContainerError("bad_header", "has its samples before its format")
            splice = _check_data(file, position, size, num_bytes)
            return dataclasses.replace(wav_format, data_bytes=size), splice
        if position + size > num_bytes:
            raise ContainerError("truncated", f"ends inside its header after {num_bytes} bytes")
        if name == b"fmt ":
            wav_format = _read_format(file.read(min(size, 40)))
        position += size + size % 2
    raise ContainerError("truncated", f"ends after {num_bytes} bytes, before its samples begin")


def _read_format(chunk: bytes) -> WavFormat:
    if len(chunk) < 16:
        raise ContainerError("bad_header", f"has a format chunk of {len(chunk)} bytes")
    tag, channels, rate, bytes_per_second, frame_bytes, bits = struct.unpack("<HHIIHH", chunk[:16])
    if tag == _EXTENSIBLE and len(chunk) >= 26:
        (tag,) = struct.unpack("<H", chunk[24:26])
    if channels == 0:
        raise ContainerError("bad_header", "claims 0 channels")
    if rate == 0:
        raise ContainerError("bad_header", "claims a sample rate of 0 Hz")
    if tag in _PLAIN_TAGS:
        _check_sizes(rate, channels, bits, frame_bytes, bytes_per_second)
    return WavFormat(tag, channels, rate, bits)


def _check_sizes(
    rate: int, channels: int, bits: int, frame_bytes: int, bytes_per_second: int
) -> None:
    expected = channels * ((bits + 7) // 8)
    if bits == 0:
        raise ContainerError("bad_header", "claims 0 bits a sample")
    if frame_bytes != expected:
        raise ContainerError(
            "bad_header",
            f"claims {frame_bytes} bytes a frame, but channels x bits ({channels} x {bits}) make "
            f"{expected}",
        )
    if bytes_per_second not in (0, rate * frame_bytes):
        raise ContainerError(
            "bad_header",
            f"claims {rate} Hz and {bytes_per_second} bytes a second, but that rate makes "
            f"{rate * frame_bytes}",
        )


def _check_data(file: BinaryIO, start: int, size: int, num_bytes: int) -> Splice | None:
    available = num_bytes - start
    is_open = size > available and any(size in sizes for sizes in _OPEN_SIZES)
    if is_open or (size == 0 and _looks_like_samples(file, start, available)):
        return Splice(start - 4, struct.pack("<I", min(available, 0xFFFFFFFF)), 4)
    if size > available:
        raise ContainerError(
            "truncated", f"holds {available} of the {size} bytes of samples that its header claims"
        )
    after = start + size + size % 2
    if _looks_like_samples(file, after, num_bytes - after):
        raise ContainerError(
            "bad_header",
            f"claims {size} bytes of samples, but {num_bytes - after} bytes that belong to no "
            "chunk follow them",
        )
    return None


def _looks_like_samples(file: BinaryIO, position: int, num_bytes: int) -> bool:
    """Tells whether the rest of the file is neither chunks, nor a tag, nor padding."""
    if num_bytes <= _MAX_LOOSE_BYTES:
        return False
    file.seek(position)
    rest = file.read(_LOOK_BYTES)
    name = rest[:4]
    is_chunk = name.isascii() and name.decode("latin-1").strip().isalnum()
    return not is_chunk and any(rest)
