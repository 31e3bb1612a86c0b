"""Files that appear whole or not at all."""

import contextlib
import errno
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from ds2_tf.errors import UserError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@contextlib.contextmanager
def open_for_write(path: str | os.PathLike, mode: str = "w") -> Iterator[IO[Any]]:
    r"""Opens a file that replaces `path` only when the block ends without an error.

    The data is written to a temporary file in the same folder (created if need be), flushed to the
    disk and renamed. A crash at any point leaves the old file, or none, never half a file.

    Args:
      path: the file to write.
      mode: "w" for UTF-8 text with "\n" line ends, or "wb" for bytes.

    Raises:
      ValueError: for another mode.
      UserError: when the folder cannot be created or written, or the disk is full.
    """
    if mode not in ("w", "wb"):
        raise ValueError(f"mode must be 'w' or 'wb'. Received: {mode!r}")
    path = os.path.abspath(path)
    folder, name = os.path.split(path)
    text_options: dict[str, Any] = {} if mode == "wb" else {"encoding": "utf-8", "newline": "\n"}
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); choose a folder you may write to"
        ) from error
    try:
        with open(descriptor, mode, **text_options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise UserError(
                f"{path}: cannot be written ({error.strerror}); make room, then start again"
            ) from error
        raise


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Raises `UserError` when nothing can be written in a folder, or it cannot be made."""
    nearest = pathlib.Path(folder)
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        tempfile.TemporaryFile(dir=str(nearest)).close()
    except OSError as error:
        raise UserError(
            f"{os.fspath(folder)}: cannot be written ({error.strerror}); choose a folder you may "
            "write to"
        ) from error
