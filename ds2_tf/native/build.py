"""The one recipe for the native libraries: compile once, keep, load.

A library is compiled at its first use and kept in a cache, under a name that holds everything it
depends on: TensorFlow's version, the compiler's, the flags and the sources. `ds2 build_ops`
compiles ahead of time, also into a folder that travels with the package.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

import tensorflow as tf
from absl import logging

FOLDER = pathlib.Path(__file__).parent
PREBUILT = FOLDER / "prebuilt"

_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-pthread")
_NUM_JOBS = 2


class BuildError(Exception):
    """The library cannot be built; the message says why and what to do."""


def compiler() -> str:
    """Returns the C++ compiler's path: of the environment variable CXX, or g++, or clang++.

    Raises:
      BuildError: when there is none.
    """
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise BuildError("no C++ compiler was found; install one (Debian: apt install g++)")


def sources() -> list[pathlib.Path]:
    """Returns the C++ files of the TensorFlow operations, algorithms and adapters."""
    return sorted(p for p in FOLDER.glob("*.cc") if not p.stem.endswith(("_test", "_emulation")))


def library() -> pathlib.Path:
    """Returns the library of TensorFlow operations; compiles it if no fitting one is there.

    Several processes may ask at once: one compiles, the others wait.

    Raises:
      BuildError: when there is no compiler or it reports errors, which the message holds.
    """
    if prebuilt := sorted(PREBUILT.glob(f"{_prefix()}-*.so")):
        return prebuilt[0]
    return build(cache_folder())


def cache_folder() -> pathlib.Path:
    """Returns where compiled libraries are kept: $DS2_TF_CACHE or ~/.cache/ds2_tf."""
    if folder := os.environ.get("DS2_TF_CACHE", ""):
        return pathlib.Path(folder)
    return pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "ds2_tf"
    )


def build(folder: str | os.PathLike) -> pathlib.Path:
    """Compiles the library into a folder, whole or not at all, unless it is there already.

    Raises:
      BuildError: as `library`.
    """
    folder = pathlib.Path(folder)
    path = folder / _name(compiler_version(compiler()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=folder) as scratch:
            if not path.exists():
                logging.info("compiling the native operations, once; a minute or two")
                os.replace(_compile(pathlib.Path(scratch)), path)
    except OSError as error:
        raise BuildError(
            f"{folder}: cannot be written ({error.strerror}); set DS2_TF_CACHE to another folder"
        ) from error
    return path


def compiler_version(path: str) -> str:
    """Returns the first line of what a compiler says of its version."""
    result = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return result.stdout.partition("\n")[0]


def _compile(scratch: pathlib.Path) -> pathlib.Path:
    """Returns the linked library in a temporary folder."""
    flags = [*_FLAGS, "-w", *tf.sysconfig.get_compile_flags(), f"-I{FOLDER.parents[1]}"]
    objects = [scratch / f"{source.stem}.o" for source in sources()]

    def compile_one(source: pathlib.Path, target: pathlib.Path) -> None:
        _run([compiler(), *flags, "-c", str(source), "-o", str(target)])

    with concurrent.futures.ThreadPoolExecutor(_NUM_JOBS) as pool:
        list(pool.map(compile_one, sources(), objects))
    target = scratch / "library.so"
    _run(
        [
            compiler(),
            "-shared",
            "-o",
            str(target),
            *map(str, objects),
            *tf.sysconfig.get_link_flags(),
            "-pthread",
        ]
    )
    return target


def _run(command: Sequence[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"the compiler failed: {' '.join(command)}\n{result.stderr.strip()}")


def _name(version: str) -> str:
    """Returns the file name of the library that this compiler makes of the sources."""
    return f"{_prefix()}-{_digest([version.encode()])}.so"


def _prefix() -> str:
    """Returns the part of the name that tells what a library was made for and of."""
    parts = [flag.encode() for flag in _FLAGS]
    for path in sorted((*FOLDER.glob("*.cc"), *FOLDER.glob("*.h"))):
        parts += [path.name.encode(), path.read_bytes()]
    version = f"{tf.version.VERSION}-{_digest([tf.version.GIT_VERSION.encode()])[:6]}"
    return f"ds2_ops-tf{version}-{platform.machine()}-{_digest(parts)}"


def _digest(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
