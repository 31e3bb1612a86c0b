"""KenLM's sources: fetched once from the package index, checked, unpacked into the cache.

They are not part of this package: KenLM is under the LGPL, and who needs no language model needs
none of it.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile

from absl import logging

from ds2_tf.errors import UserError
from ds2_tf.native import compiling

VERSION = "0.3.0"
SHA256 = "c4628bb9fb63c8a6f9240035b8b037385cfc404cb72e933cf48878291edac1e8"
ARCHIVE = f"kenlm-{VERSION}.tar.gz"
MAX_ORDER = 6

FLAGS = (*compiling.FLAGS, "-DNDEBUG", f"-DKENLM_MAX_ORDER={MAX_ORDER}", "-DHAVE_CLOCKGETTIME")
"""How every file is compiled. The order's limit is that of the package `kenlm`."""

_REMEDY = (
    f"get {ARCHIVE} from https://pypi.org/project/kenlm/{VERSION}/#files on a machine that can, "
    "and set DS2_KENLM_SDIST to its path"
)


def folder() -> pathlib.Path:
    """Returns the folder of the sources, which is fetched if it isn't there.

    The archive is the file that $DS2_KENLM_SDIST names, else `pip` gets it.

    Raises:
      UserError: when it cannot be had, or is another one than this program knows.
      compiling.BuildError: when the cache cannot be written.
    """
    path = compiling.cache_folder() / f"kenlm_source-{SHA256[:12]}"
    return path if path.exists() else compiling.make(path, _fetch)


def _fetch(scratch: pathlib.Path) -> pathlib.Path:
    """Returns the unpacked sources in a temporary folder."""
    if named := os.environ.get("DS2_KENLM_SDIST", ""):
        archive = pathlib.Path(named)
    else:
        logging.info("fetching %s", ARCHIVE)
        archive = _download(scratch)
    try:
        with open(archive, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != SHA256:
            raise UserError(
                f"{archive}: is not {ARCHIVE} as published (its SHA-256 is {found}, not {SHA256}); "
                f"{_REMEDY}"
            )
        with tarfile.open(archive) as content:
            # Before Python 3.11.4 there are no filters; the checksum makes them a second lock.
            content.extraction_filter = getattr(tarfile, "data_filter", None)
            content.extractall(scratch / "unpacked")
    except OSError as error:
        raise UserError(f"{archive}: cannot be read ({error.strerror}); {_REMEDY}") from error
    return scratch / "unpacked" / f"kenlm-{VERSION}"


def _download(scratch: pathlib.Path) -> pathlib.Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--retries=1", "--timeout=20", "--no-deps", "--no-binary=:all:"]
    result = subprocess.run(
        [*command, f"--dest={scratch}", f"kenlm=={VERSION}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        reasons = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise UserError(f"{ARCHIVE}: pip cannot fetch it ({reasons[-1].strip()}); {_REMEDY}")
    return scratch / ARCHIVE
