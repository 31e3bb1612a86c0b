"""The pages of an ogg file, the container of opus and vorbis (RFC 3533, section 6)."""

import zlib
from typing import BinaryIO

from ds2_tf.containers.container_error import ContainerError

_FIRST_PAGE, _LAST_PAGE = 2, 4
_MAX_PAGE_BYTES = 27 + 255 + 255 * 255
_MIRRORED_BYTES = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def check(file: BinaryIO, num_bytes: int) -> None:
    """Walks over the pages: each must be whole, the last carry the flag that ends the stream.

    libsndfile plays a truncated file as far as it goes, fills the place of a damaged page with
    silence, and plays the first only of streams in a row.

    Args:
      file: a seekable file; its position is changed.
      num_bytes: the size of the file.

    Raises:
      ContainerError: with the reason "truncated" or "unreadable".
    """
    position, flags, in_content = 0, 0, False
    while position < num_bytes:
        file.seek(position)
        page = file.read(_MAX_PAGE_BYTES)
        if page[:4] != b"OggS":
            position = _find(file, b"OggS", position, num_bytes)
            continue
        sizes = page[27 : 27 + page[26]] if len(page) > 26 else b""
        page_bytes = 27 + len(sizes) + sum(sizes)
        if len(page) < 27 or len(sizes) < page[26] or page_bytes > len(page):
            raise ContainerError("truncated", f"ends after {num_bytes} bytes, inside an ogg page")
        if _checksum(page[:page_bytes]) != int.from_bytes(page[22:26], "little"):
            raise ContainerError("truncated", f"is damaged in the ogg page at byte {position}")
        position += page_bytes
        flags = page[5]
        if in_content and flags & _FIRST_PAGE:
            raise ContainerError(
                "unreadable", "holds several ogg streams in a row, of which only the first is read"
            )
        in_content = not flags & _FIRST_PAGE
    if not flags & _LAST_PAGE:
        raise ContainerError("truncated", "ends without the page that closes an ogg stream")


def _checksum(page: bytes) -> int:
    """Returns a page's CRC: zlib's polynomial with the bits of each byte the other way round."""
    mirrored = (page[:22] + bytes(4) + page[26:]).translate(_MIRRORED_BYTES)
    value = zlib.crc32(mirrored, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{value:032b}"[::-1], 2)


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
