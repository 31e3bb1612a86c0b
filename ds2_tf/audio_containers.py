"""Whether a sound file is whole, as far as its container can tell without decoding.

libsndfile plays what it finds: of a truncated file the beginning, of joined ogg streams the first.
"""

import dataclasses
import re
import struct
from typing import BinaryIO

from ds2_tf import flac_frames, wav_header
from ds2_tf.flac_frames import StreamInfo
from ds2_tf.wav_header import ContainerError, Patch, WavFormat

FLAC_TAIL_BYTES = 1 << 18
_HEAD_BYTES = 4096
_OGG_FIRST_PAGE, _OGG_LAST_PAGE = 2, 4
_MPEG_KBITS = {
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_MPEG_RATES_HZ = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a decoder must know of a file that passed.

    Attributes:
      patch: how to mend a wav header that leaves its size open.
      num_frames: samples of one channel, counted where the decoder would only estimate them.
      wav_format: of a wav file.
      flac_info: of a flac file.
    """

    patch: Patch | None = None
    num_frames: int | None = None
    wav_format: WavFormat | None = None
    flac_info: StreamInfo | None = None


def check(file: BinaryIO, num_bytes: int) -> Verdict:
    """Looks for headers that lie and files that end early; formats it does not know pass.

    Args:
      file: a seekable file; its position is changed.
      num_bytes: the size of the file.

    Raises:
      ContainerError: with the reason "truncated", "bad_header" or "unreadable".
    """
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head[:4] == b"RIFF" and head[8:12] in (b"WAVE", b""):
        wav_format, patch = wav_header.check(file, num_bytes)
        return Verdict(patch=patch, wav_format=wav_format)
    if head[:4] == b"OggS":
        _check_ogg(file, num_bytes)
    elif head[:4] == b"fLaC":
        return _check_flac(file, num_bytes)
    elif _is_mpeg_layer_3(head[_id3_bytes(head) :][:4]) or head[:3] == b"ID3":
        return Verdict(num_frames=_check_mp3(file, num_bytes, _id3_bytes(head)))
    else:
        claimed = _claimed_bytes(head)
        if claimed > num_bytes:
            raise ContainerError(
                "truncated", f"holds {num_bytes} of the {claimed} bytes that its header claims"
            )
    return Verdict()


def _check_ogg(file: BinaryIO, num_bytes: int) -> None:
    """Walks over the pages; the last must be whole and carry the flag that ends a stream."""
    position, flags, in_content = 0, 0, False
    while position < num_bytes:
        file.seek(position)
        page = file.read(27 + 255)
        if page[:4] != b"OggS":
            position = _find(file, b"OggS", position, num_bytes)
            continue
        sizes = page[27 : 27 + page[26]] if len(page) > 26 else b""
        position += 27 + len(sizes) + sum(sizes)
        if len(page) < 27 or len(sizes) < page[26] or position > num_bytes:
            raise ContainerError("truncated", f"ends after {num_bytes} bytes, inside an ogg page")
        flags = page[5]
        if in_content and flags & _OGG_FIRST_PAGE:
            raise ContainerError(
                "unreadable", "holds several ogg streams in a row, of which only the first is read"
            )
        in_content = not flags & _OGG_FIRST_PAGE
    if not flags & _OGG_LAST_PAGE:
        raise ContainerError("truncated", "ends without the page that closes an ogg stream")


def _find(file: BinaryIO, mark: bytes, position: int, num_bytes: int) -> int:
    """Returns where `mark` occurs next after `position`, or the file's size."""
    file.seek(position)
    before = b""
    while block := file.read(1 << 16):
        found = (before + block).find(mark)
        if found >= 0:
            return position - len(before) + found
        position += len(block)
        before = block[-len(mark) + 1 :]
    return num_bytes


def _check_flac(file: BinaryIO, num_bytes: int) -> Verdict:
    """Compares the header with the last frame; damage in between shows when it is decoded."""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if len(head) < 42:
        raise ContainerError("truncated", f"ends inside its header after {num_bytes} bytes")
    info = flac_frames.read_stream_info(head[8:42])
    if head[4] & 0x7F or not info.sample_rate_hz:
        raise ContainerError("bad_header", "has a flac header without a sample rate")
    file.seek(max(0, num_bytes - FLAC_TAIL_BYTES))
    tail = file.read(FLAC_TAIL_BYTES)
    claimed = info.num_frames
    if flac_frames.count_by_last_frame(tail, info, is_whole=False) == claimed:
        return Verdict(flac_info=info)
    found = flac_frames.count_by_last_frame(tail, info)
    if claimed and found is not None and found != claimed:
        raise ContainerError(
            "truncated" if found < claimed else "bad_header",
            f"holds {found} samples, but its header claims {claimed}",
        )
    return Verdict(flac_info=info, num_frames=None if claimed else found)


def _id3_bytes(head: bytes) -> int:
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    a, b, c, d = head[6:10]
    return 10 + (a << 21 | b << 14 | c << 7 | d)


def _is_mpeg_layer_3(header: bytes) -> bool:
    return _mpeg_frame(header) is not None


def _mpeg_frame(header: bytes) -> tuple[int, int] | None:
    """Returns bytes and samples of the frame that a 4-byte header begins, None if it begins none.

    Layer III only (ISO 11172-3, section 2.4.2.3); not the free format.
    """
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return None
    version = header[1] >> 3 & 3
    kbits_index, rate_index, padding = header[2] >> 4, header[2] >> 2 & 3, header[2] >> 1 & 1
    if version not in _MPEG_RATES_HZ or rate_index == 3 or kbits_index in (0, 15):
        return None
    is_mpeg_1 = version == 3
    bits_per_second = 1000 * _MPEG_KBITS[1 if is_mpeg_1 else 2][kbits_index - 1]
    num_samples = 1152 if is_mpeg_1 else 576
    rate_hz = _MPEG_RATES_HZ[version][rate_index]
    return num_samples // 8 * bits_per_second // rate_hz + padding, num_samples


def _check_mp3(file: BinaryIO, num_bytes: int, start: int) -> int | None:
    """Compares the size with the Xing or Info header's or, without one, walks over all frames.

    Returns the number of samples if it had to walk: libsndfile would guess it from the first frame.
    """
    file.seek(start)
    first = file.read(200)
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
    while True:
        file.seek(position)
        frame = _mpeg_frame(file.read(4))
        if frame is None:
            return num_frames or None
        position += frame[0]
        num_frames += frame[1]
        if position > num_bytes:
            raise ContainerError("truncated", f"ends after {num_bytes} bytes, inside an mp3 frame")


def _claimed_bytes(head: bytes) -> int:
    """Returns how many bytes the header of a rarer format promises; 0 when it does not say."""
    if head[:4] == b"FORM":
        size = int.from_bytes(head[4:8], "big")
        return 8 + size if size < 0x7FFF0000 else 0
    if head[:4] in (b"RF64", b"BW64") and head[12:16] == b"ds64":
        return 8 + int.from_bytes(head[20:28], "little")
    if head[:16] == bytes.fromhex("726966662e91cf11a5d628db04c10000"):  # Sony Wave64
        return int.from_bytes(head[16:24], "little")
    if head[:4] == b".snd":
        offset, size = struct.unpack(">II", head[4:12].ljust(8, b"\0"))
        return offset + size if size != 0xFFFFFFFF else 0
    if head[:7] == b"NIST_1A":
        fields = dict(re.findall(rb"^(\w+) -i (\d+)", head, re.MULTILINE))
        names = (b"sample_count", b"channel_count", b"sample_n_bytes")
        if all(name in fields for name in names) and b"shorten" not in head:
            count, channels, width = (int(fields[name]) for name in names)
            return 1024 + count * channels * width
    return 0
