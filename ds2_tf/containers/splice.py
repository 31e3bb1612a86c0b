"""A file of which a decoder sees a few bytes otherwise than they are."""

import dataclasses
import os
from typing import BinaryIO


@dataclasses.dataclass(frozen=True)
class Splice:
    """`content` takes the place of `num_replaced` bytes at `offset`."""

    offset: int
    content: bytes
    num_replaced: int


class SplicedFile:
    """Reads a file with a splice, or as it is; it has no name, which soundfile would go by."""

    def __init__(self, file: BinaryIO, num_bytes: int, splice: Splice | None) -> None:
        self._file = file
        self._splice = splice or Splice(0, b"", 0)
        self._num_bytes = num_bytes + len(self._splice.content) - self._splice.num_replaced
        self._position = 0

    def tell(self) -> int:
        """Returns the position, as seen by the reader."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position, as `io.IOBase.seek`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._num_bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int) -> bytes:
        """Returns up to `size` bytes, fewer at the end."""
        start, end = self._position, min(self._position + size, self._num_bytes)
        splice = self._splice
        splice_end = splice.offset + len(splice.content)
        shift = splice.num_replaced - len(splice.content)
        content = self._read_own(start, min(end, splice.offset))
        content += splice.content[max(0, start - splice.offset) : max(0, end - splice.offset)]
        content += self._read_own(max(start, splice_end) + shift, end + shift)
        self._position = start + len(content)
        return content

    def _read_own(self, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        self._file.seek(start)
        return self._file.read(end - start)
