"""What a flac file claims, and what its last frame says: how many samples there really are.

The format is RFC 9639 (FLAC), sections 8.2 and 9.1.
"""

import dataclasses
import functools
from typing import BinaryIO

from ds2_tf.containers.container_error import ContainerError

_SIZE_BY_CODE = {
    1: 192,
    **{n: 576 << n - 2 for n in range(2, 6)},
    **{n: 1 << n for n in range(8, 16)},
}
_BITS_BY_CODE = {1: 8, 2: 12, 4: 16, 5: 20, 6: 24, 7: 32}
_MAX_HEADER_BYTES = 16
TAIL_BYTES = 1 << 18
"""Enough of a file's end to hold its last frame."""


@dataclasses.dataclass(frozen=True)
class StreamInfo:
    """The STREAMINFO block; `num_frames` (samples of one channel) is 0 when left open."""

    block_size: int
    sample_rate_hz: int
    num_channels: int
    bits: int
    num_frames: int
    md5: bytes


def check(file: BinaryIO, num_bytes: int) -> tuple[StreamInfo, int | None]:
    """Compares the header with the last frame; damage in between shows when it is decoded.

    Args:
      file: a seekable file; its position is changed.
      num_bytes: the size of the file.

    Returns:
      The header, and the samples of one channel: None when the header leaves them open and
      the file does not end with a whole frame.

    Raises:
      ContainerError: with the reason "truncated" or "bad_header".
    """
    file.seek(0)
    head = file.read(42)
    if len(head) < 42:
        raise ContainerError("truncated", f"ends inside its header after {num_bytes} bytes")
    info = read_stream_info(head[8:42])
    if head[4] & 0x7F or not info.sample_rate_hz:
        raise ContainerError("bad_header", "has a flac header without a sample rate")
    file.seek(max(0, num_bytes - TAIL_BYTES))
    tail = file.read(TAIL_BYTES)
    claimed = info.num_frames
    if count_by_last_frame(tail, info, is_whole=False) == claimed:
        return info, claimed
    found = count_by_last_frame(tail, info)
    if claimed and found is not None and found != claimed:
        raise ContainerError(
            "truncated" if found < claimed else "bad_header",
            f"holds {found} samples, but its header claims {claimed}",
        )
    return info, claimed or found


def read_stream_info(block: bytes) -> StreamInfo:
    """Reads the 34 bytes of a STREAMINFO block."""
    packed = int.from_bytes(block[10:18], "big")
    return StreamInfo(
        block_size=int.from_bytes(block[2:4], "big"),
        sample_rate_hz=packed >> 44,
        num_channels=(packed >> 41 & 7) + 1,
        bits=(packed >> 36 & 31) + 1,
        num_frames=packed & (1 << 36) - 1,
        md5=block[18:34],
    )


def count_by_last_frame(tail: bytes, info: StreamInfo, is_whole: bool = True) -> int | None:
    """Returns the samples of one channel up to the end of the last frame, by that frame's number.

    Args:
      tail: the last bytes of the file, at least a frame of them.
      info: of the same file.
      is_whole: take a frame only if its checksum shows that it ends the file whole; if false, its
        header's checksum is enough, which is 20 times faster.

    Returns:
      None when no such frame is found, as when the file is cut, damaged or followed by a tag.
    """
    at = len(tail)
    while (at := tail.rfind(b"\xff", 0, at)) >= 0:
        end = _frame_end(tail[at : at + _MAX_HEADER_BYTES], info)
        if end is not None and not (is_whole and _crc(tail[at:], 16, 0x8005)):
            return end
    return None


def _frame_end(header: bytes, info: StreamInfo) -> int | None:
    """Returns the number of the sample after a frame; None for bytes that are no frame's header."""
    if len(header) < 6 or header[1] & 0xFE != 0xF8 or header[3] & 1:
        return None
    if _BITS_BY_CODE.get(header[3] >> 1 & 7, info.bits) != info.bits:
        return None
    number, at = _coded_number(header)
    if number is None:
        return None
    code = header[2] >> 4
    size = _SIZE_BY_CODE.get(code, 0)
    if code in (6, 7):
        width = code - 5
        size = int.from_bytes(header[at : at + width], "big") + 1
        at += width
    at += {12: 1, 13: 2, 14: 2}.get(header[2] & 15, 0)
    if not size or at >= len(header) or _crc(header[: at + 1], 8, 0x07):
        return None
    is_variable = header[1] & 1
    return (number if is_variable else number * info.block_size) + size


def _coded_number(header: bytes) -> tuple[int | None, int]:
    """Returns the frame's or sample's number (coded as in UTF-8, up to 7 bytes) and its end."""
    first = header[4]
    num_ones = 8 - (~first & 0xFF).bit_length()
    if num_ones == 0:
        return first, 5
    more = header[5 : 4 + num_ones]
    if num_ones == 1 or len(more) < num_ones - 1 or any(byte & 0xC0 != 0x80 for byte in more):
        return None, 5
    number = first & (0x7F >> num_ones)
    for byte in more:
        number = number << 6 | byte & 0x3F
    return number, 4 + num_ones


def _crc(content: bytes, width: int, polynomial: int) -> int:
    """Returns the checksum; 0 for content that ends with its own."""
    table, mask, value = _crc_table(width, polynomial), (1 << width) - 1, 0
    for byte in content:
        value = (value << 8 ^ table[value >> width - 8 ^ byte]) & mask
    return value


@functools.cache
def _crc_table(width: int, polynomial: int) -> list[int]:
    top, table = 1 << width - 1, []
    for byte in range(256):
        value = byte << width - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value & top else 0)
        table.append(value & (1 << width) - 1)
    return table
