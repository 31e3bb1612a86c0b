"""The frames of an mp3 file (ISO 11172-3, layer III) and the header that counts them."""

import struct
from typing import BinaryIO

from ds2_tf.containers.container_error import ContainerError
from ds2_tf.containers.splice import Splice

_KBITS = {  # By MPEG 1 and 2 (2.5).
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def starts(head: bytes) -> bool:
    """Tells whether a file's first bytes are an ID3 tag or a frame."""
    return head[:3] == b"ID3" or _frame(head) is not None


def check(file: BinaryIO, num_bytes: int) -> Splice | None:
    """Compares the size with the Xing or Info header's or, without one, walks over all frames.

    Args:
      file: a seekable file; its position is changed.
      num_bytes: the size of the file.

    Returns:
      Where no header tells their number, one to be shown to the decoder: mpg123 would guess the
      length from the first frame, and stop there.

    Raises:
      ContainerError: with the reason "truncated".
    """
    start = _id3_bytes(_read_at(file, 0, 10))
    first = _read_at(file, start, 200)
    at = max(first.find(b"Xing"), first.find(b"Info"))
    if at >= 0 and len(first) >= at + 16:
        flags, _, claimed = struct.unpack(">III", first[at + 4 : at + 16])
        if flags & 3 == 3 and start + claimed > num_bytes:
            raise ContainerError(
                "truncated",
                f"holds {num_bytes - start} of the {claimed} bytes that its header claims",
            )
        if flags & 1:
            return None
    position, num_frames = start, 0
    while (frame_bytes := _frame(_read_at(file, position, 4))) is not None:
        position += frame_bytes
        num_frames += 1
        if position > num_bytes:
            raise ContainerError("truncated", f"ends after {num_bytes} bytes, inside an mp3 frame")
    return Splice(start, _xing_frame(first, num_frames), 0) if num_frames else None


def _id3_bytes(head: bytes) -> int:
    """Returns the size of the tag (id3.org, ID3v2, section 3.1) that comes before the frames."""
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    a, b, c, d = head[6:10]
    return 10 + (a << 21 | b << 14 | c << 7 | d)


def _frame(header: bytes) -> int | None:
    """Returns the bytes of the frame that 4 bytes begin; None if they begin none of layer III.

    The free format, whose frames do not tell their size, counts as none.
    """
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return None
    version = header[1] >> 3 & 3
    kbits_index, rate_index, padding = header[2] >> 4, header[2] >> 2 & 3, header[2] >> 1 & 1
    if version not in _RATES_HZ or rate_index == 3 or kbits_index in (0, 15):
        return None
    is_mpeg_1 = version == 3
    bits_per_second = 1000 * _KBITS[1 if is_mpeg_1 else 2][kbits_index - 1]
    num_samples = 1152 if is_mpeg_1 else 576
    return num_samples // 8 * bits_per_second // _RATES_HZ[version][rate_index] + padding


def _xing_frame(first: bytes, num_frames: int) -> bytes:
    """Returns a frame in the format of the first that holds nothing but the number of frames."""
    is_mpeg_1, is_mono = first[1] >> 3 & 3 == 3, first[3] >> 6 == 3
    side_bytes = (17 if is_mono else 32) if is_mpeg_1 else (9 if is_mono else 17)
    # Without checksum, at 64 kbit/s (MPEG 1) or 48 (MPEG 2): room enough at every rate.
    kbits_bits = 0x50 if is_mpeg_1 else 0x60
    header = bytes((0xFF, first[1] | 1, first[2] & 0x0C | kbits_bits, first[3]))
    content = header + bytes(side_bytes) + struct.pack(">4sII", b"Xing", 1, num_frames)
    return content.ljust(_frame(header) or 0, b"\0")


def _read_at(file: BinaryIO, position: int, num_bytes: int) -> bytes:
    file.seek(position)
    return file.read(num_bytes)
