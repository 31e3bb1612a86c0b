"""Reads text for language models: plain or compressed, in any encoding, one sentence a line."""

import bz2
import codecs
import dataclasses
import gzip
import hashlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ds2_tf.errors import UserError

STANDARD_INPUT = "-"

_BLOCK_BYTES = 1 << 20
_COMPRESSIONS: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"BZh", bz2.open),
)
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclasses.dataclass
class Source:
    """A text as it was read: its name, and its bytes before they were decompressed."""

    name: str
    num_bytes: int = 0
    num_lines: int = 0
    sha256: str = ""


def check_encoding(encoding: str) -> str:
    """Returns the encoding's usual name.

    Raises:
      UserError: when Python knows none of that name.
    """
    try:
        return codecs.lookup(encoding).name
    except LookupError as error:
        raise UserError(
            f"encoding {encoding!r}: is unknown; give one such as utf-8, utf-16, gb18030, latin-1"
        ) from error


def lines(
    path: str,
    encoding: str = "utf-8",
    source: Source | None = None,
    on_bytes: Callable[[int], object] = lambda count: None,
) -> Iterator[str]:
    r"""Yields the lines of a text, which "\n", "\r\n" or "\r" end.

    Compression (gzip, xz, bzip2) is told by the content. A byte-order mark is left out.

    Args:
      path: of the file, or "-" for standard input.
      encoding: any that Python knows.
      source: is filled in when the end is reached.
      on_bytes: is told how many more bytes of the file were read.

    Raises:
      UserError: for a file that cannot be read, is damaged, or is of another encoding.
    """
    encoding = check_encoding(encoding)
    name = "standard input" if path == STANDARD_INPUT else path
    source = source or Source(name)
    try:
        with _Hashed(path, on_bytes) as raw:
            buffered: Any = io.BufferedReader(raw, _BLOCK_BYTES)
            for number, line in enumerate(_decoded(name, buffered, encoding), start=1):
                source.num_lines = number
                yield line
            source.num_bytes, source.sha256 = raw.num_bytes, raw.digest.hexdigest()
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{name}: is damaged ({error}); get the file again") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{name}: cannot be read ({reason}); give a text file") from error


def _decoded(name: str, file: io.BufferedReader, encoding: str) -> Iterator[str]:
    start, content = file.peek(8)[:8], file
    for magic, decompressed in _COMPRESSIONS:
        if start.startswith(magic):
            content = io.BufferedReader(decompressed(file), _BLOCK_BYTES)
            start = content.peek(8)[:8]
            break
    if encoding == "utf-8":
        if start.startswith(_WIDE_MARKS):
            raise UserError(f"{name}: is UTF-16, not UTF-8; give --encoding=utf-16")
        if start.startswith(codecs.BOM_UTF8):
            content.read(len(codecs.BOM_UTF8))
    is_wide = encoding.startswith(("utf-16", "utf-32"))
    number = 0
    try:
        for line in (_wide_lines if is_wide else _byte_lines)(content, encoding):
            number += 1
            yield line
    except UnicodeError as error:
        reason = getattr(error, "reason", str(error))
        raise UserError(
            f"{name}:{number + 1}: is not {encoding} ({reason}); state the text's encoding with "
            "--encoding"
        ) from error


def _byte_lines(file: io.BufferedReader, encoding: str) -> Iterator[str]:
    for line in file:  # Of these encodings none has a byte of a line's end within a character.
        for part in line.rstrip(b"\r\n").split(b"\r"):
            yield part.decode(encoding)


def _wide_lines(file: io.BufferedReader, encoding: str) -> Iterator[str]:
    for line in io.TextIOWrapper(file, encoding):
        yield line.rstrip("\n")


class _Hashed(io.RawIOBase):
    """A file that counts and digests the bytes which are read from it."""

    def __init__(self, path: str, on_bytes: Callable[[int], object]):
        super().__init__()
        self.num_bytes = 0
        self.digest = hashlib.sha256()
        self._on_bytes = on_bytes
        descriptor = sys.stdin.fileno() if path == STANDARD_INPUT else path
        self._file = io.FileIO(descriptor, closefd=path != STANDARD_INPUT)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        self.num_bytes += count
        self.digest.update(memoryview(buffer)[:count])
        self._on_bytes(count)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def num_bytes(paths: Sequence[str]) -> int | None:
    """Returns the size of the files together, None when it cannot be told: of standard input.

    Raises:
      UserError: when one is missing.
    """
    if STANDARD_INPUT in paths:
        return None
    try:
        return sum(os.stat(path).st_size for path in paths)
    except OSError as error:
        raise UserError(
            f"{error.filename}: cannot be read ({error.strerror}); give a text file"
        ) from error
