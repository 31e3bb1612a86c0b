"""Whether a sound file is whole and its header true, as far as that shows without decoding.

libsndfile plays what it finds: of a truncated file the beginning, at whatever rate is claimed.
"""

import dataclasses
import re
import struct
from typing import BinaryIO

from ds2_tf.containers import flac, mp3, ogg, wav
from ds2_tf.containers.container_error import ContainerError
from ds2_tf.containers.flac import StreamInfo
from ds2_tf.containers.splice import Splice
from ds2_tf.containers.wav import WavFormat

_HEAD_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a decoder must know of a file that passed.

    Attributes:
      splice: how a decoder must see the file when its header leaves the length open.
      num_frames: samples of one channel, where they were counted.
      wav_format: of a wav file.
      flac_info: of a flac file.
    """

    splice: Splice | None = None
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
        wav_format, splice = wav.check(file, num_bytes)
        return Verdict(splice=splice, wav_format=wav_format)
    if head[:4] == b"fLaC":
        flac_info, num_frames = flac.check(file, num_bytes)
        return Verdict(num_frames=num_frames, flac_info=flac_info)
    if head[:4] == b"OggS":
        ogg.check(file, num_bytes)
        return Verdict()
    if mp3.starts(head):
        return Verdict(splice=mp3.check(file, num_bytes))
    claimed = _claimed_bytes(head)
    if claimed > num_bytes:
        raise ContainerError(
            "truncated", f"holds {num_bytes} of the {claimed} bytes that its header claims"
        )
    return Verdict()


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
