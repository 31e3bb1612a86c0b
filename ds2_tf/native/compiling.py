"""Compiles C++ into shared libraries: each once, kept in a cache, never half-written.

A library's name holds all that it depends on: the compiler's version, the flags, the sources. There
is no TensorFlow in here.
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
from collections.abc import Callable, Iterator, Sequence

from absl import logging

FOLDER = pathlib.Path(__file__).parent
PREBUILT = FOLDER / "prebuilt"
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-pthread")

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


def cache_folder() -> pathlib.Path:
    """Returns where compiled libraries are kept: $DS2_TF_CACHE or ~/.cache/ds2_tf."""
    if folder := os.environ.get("DS2_TF_CACHE", ""):
        return pathlib.Path(folder)
    return pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "ds2_tf"
    )


def library(
    kind: str,
    sources: Sequence[pathlib.Path],
    headers: Sequence[pathlib.Path],
    flags: Sequence[str] = FLAGS,
    folder: str | os.PathLike | None = None,
) -> pathlib.Path:
    """Returns the library made of C++ sources; compiles it if it is not there.

    Several processes may ask at once: one compiles, the others wait.

    Args:
      kind: begins its file's name.
      sources: the files to compile, which may include files of the repository by their path.
      headers: what else it depends on.
      flags: for the compiler.
      folder: where to compile it into, the cache by default. Without one, a library beside the
        sources is taken too, which needs no compiler.

    Raises:
      BuildError: when there is no compiler or it reports errors, which the message holds.
    """
    prefix = f"{kind}-{platform.machine()}-{digest([f.encode() for f in flags])[:6]}"
    prefix += f"-{digest_of_files([*sources, *headers])}"
    if folder is None and (prebuilt := sorted(PREBUILT.glob(f"{prefix}-*.so"))):
        return prebuilt[0]
    path = pathlib.Path(folder or cache_folder()) / f"{prefix}-{digest([version(compiler())])}.so"
    compile_one = [compiler(), *flags, "-w", f"-I{FOLDER.parents[1]}"]
    link = [compiler(), "-pthread"]
    return make(path, lambda scratch: build_in(scratch, sources, lambda _: compile_one, link))


def make(path: pathlib.Path, produce: Callable[[pathlib.Path], pathlib.Path]) -> pathlib.Path:
    """Makes a file, unless it is there; returns its path.

    Args:
      path: of the file, which appears whole or not at all.
      produce: makes it in a temporary folder, and returns where.

    Raises:
      BuildError: when `produce` does, or the folder cannot be written.
    """
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=folder) as scratch:
            if not path.exists():
                logging.info("compiling %s, once; a minute or two", path.name.split("-")[0])
                os.replace(produce(pathlib.Path(scratch)), path)
    except OSError as error:
        raise BuildError(
            f"{folder}: cannot be written ({error.strerror}); set DS2_TF_CACHE to another folder"
        ) from error
    return path


def build_in(
    scratch: pathlib.Path,
    sources: Sequence[pathlib.Path],
    compile_command: Callable[[pathlib.Path], Sequence[str]],
    link_command: Sequence[str],
    libraries: Sequence[str] = (),
) -> pathlib.Path:
    """Compiles sources and links them to a shared library; returns its path.

    Args:
      scratch: an empty folder.
      sources: the files; their names must differ.
      compile_command: the compiler with its flags for a source.
      link_command: the linker with its flags.
      libraries: the linker's last arguments.

    Raises:
      BuildError: with what the compiler says.
    """
    objects = compile_objects(scratch, sources, compile_command)
    target = scratch / "library.so"
    run([*link_command, "-shared", "-o", str(target), *map(str, objects), *libraries])
    return target


def compile_objects(
    scratch: pathlib.Path,
    sources: Sequence[pathlib.Path],
    compile_command: Callable[[pathlib.Path], Sequence[str]],
) -> list[pathlib.Path]:
    """Compiles sources, as `build_in` does; returns the paths of what is to be linked."""
    objects = [scratch / f"{source.name}.o" for source in sources]

    def compile_one(source: pathlib.Path, target: pathlib.Path) -> None:
        run([*compile_command(source), "-c", str(source), "-o", str(target)])

    with concurrent.futures.ThreadPoolExecutor(_NUM_JOBS) as pool:
        list(pool.map(compile_one, sources, objects))
    return objects


def run(command: Sequence[str]) -> None:
    """Runs a compiler.

    Raises:
      BuildError: with its messages, when it fails.
    """
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"the compiler failed: {' '.join(command)}\n{result.stderr.strip()}")


def version(path: str) -> bytes:
    """Returns what a compiler says when asked for its version."""
    return subprocess.run([path, "--version"], capture_output=True, check=False).stdout


def digest_of_files(paths: Sequence[pathlib.Path]) -> str:
    """Returns a digest of the names and contents of files."""
    return digest(
        [part for path in sorted(paths) for part in (path.name.encode(), path.read_bytes())]
    )


def digest(parts: Sequence[bytes]) -> str:
    """Returns 12 hexadecimal digits that stand for all parts and where each ends."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.hexdigest()[:12]


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
