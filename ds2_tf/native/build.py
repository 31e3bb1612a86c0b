"""The one recipe for the native libraries: compile once, keep, load.

A library is compiled at its first use and kept in a cache, under a name that holds everything it
depends on: TensorFlow's version, the compiler's, the flags and the sources. `ds2 build_ops`
compiles ahead of time, also into a folder that travels with the package.

With CUDA there is a second one, which holds the kernels for GPUs besides. CUDA's own library is
linked into it, so that it loads, and its kernels for CPUs run, on machines without GPU too.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

import tensorflow as tf
from absl import logging

FOLDER = pathlib.Path(__file__).parent
PREBUILT = FOLDER / "prebuilt"

_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-pthread")
_CUDA_FLAGS = ("-std=c++17", "-O3", "-w", "-Xcompiler=-fPIC,-fvisibility=hidden")
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


def cuda_compiler() -> str:
    """Returns nvcc's path: of $CUDA_HOME, or of the PATH, or where CUDA installs itself.

    Raises:
      BuildError: when there is none.
    """
    home = os.environ.get("CUDA_HOME", "")
    for name in (home and f"{home}/bin/nvcc", "nvcc", "/usr/local/cuda/bin/nvcc"):
        if name and (path := shutil.which(name)):
            return path
    raise BuildError("no nvcc was found; install the CUDA toolkit, or set CUDA_HOME to its folder")


def sources(cuda: bool = False) -> list[pathlib.Path]:
    """Returns the files of the TensorFlow operations, algorithms and adapters."""
    others = ("_test", "_emulation") if cuda else ("_test", "_emulation", "_cuda_op")
    paths = sorted(path for path in FOLDER.glob("*.cc") if not path.stem.endswith(others))
    return paths + sorted(FOLDER.glob("*.cu")) if cuda else paths


def library(cuda: bool = False) -> pathlib.Path:
    """Returns the library of TensorFlow operations; compiles it if no fitting one is there.

    Several processes may ask at once: one compiles, the others wait.

    Args:
      cuda: whether it must have kernels for GPUs; without need, one beside the sources may.

    Raises:
      BuildError: when there is no compiler or it reports errors, which the message holds.
    """
    for with_cuda in (True,) if cuda else (False, True):
        if prebuilt := sorted(PREBUILT.glob(f"{_prefix(with_cuda)}-*.so")):
            return prebuilt[0]
    return build(cache_folder(), cuda)


def cache_folder() -> pathlib.Path:
    """Returns where compiled libraries are kept: $DS2_TF_CACHE or ~/.cache/ds2_tf."""
    if folder := os.environ.get("DS2_TF_CACHE", ""):
        return pathlib.Path(folder)
    return pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "ds2_tf"
    )


def build(folder: str | os.PathLike, cuda: bool = False) -> pathlib.Path:
    """Compiles the library into a folder, whole or not at all, unless it is there already.

    With `cuda` it gets kernels for GPUs too: of the architectures that $DS2_TF_CUDA_ARCHS lists, as
    in "80,90", by default of every generation that nvcc knows. Newer GPUs than these run them too.

    Raises:
      BuildError: as `library`.
    """
    folder = pathlib.Path(folder)
    path = folder / _name(cuda)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=folder) as scratch:
            if not path.exists():
                logging.info("compiling the native operations, once; a minute or two")
                os.replace(_compile(pathlib.Path(scratch), cuda), path)
    except OSError as error:
        raise BuildError(
            f"{folder}: cannot be written ({error.strerror}); set DS2_TF_CACHE to another folder"
        ) from error
    return path


def _version(path: str) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout


def _architectures() -> list[str]:
    """Returns nvcc's options for the GPUs to compile for: code for each, and source for newer."""
    text = os.environ.get("DS2_TF_CUDA_ARCHS", "")
    if not text:
        return ["-arch=all-major"]
    names = [name.strip() for name in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{2,3}[af]?", name) for name in names):
        raise BuildError(f'DS2_TF_CUDA_ARCHS must be a list as in "80,90". Received: {text!r}')
    options = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in names]
    newest = max(names, key=lambda name: int(name.rstrip("af")))
    return [*options, f"-gencode=arch=compute_{newest},code=compute_{newest}"]


def _compile(scratch: pathlib.Path, cuda: bool) -> pathlib.Path:
    """Returns the linked library in a temporary folder."""
    include = f"-I{FOLDER.parents[1]}"
    compile_cc = [compiler(), *_FLAGS, "-w", *tf.sysconfig.get_compile_flags(), include]
    link = [compiler()]
    if cuda:
        # As a linker it adds CUDA's own library, in the static form.
        link = [cuda_compiler(), f"-ccbin={compiler()}", "-cudart=static"]
        compile_cu = [*link, *_CUDA_FLAGS, *_architectures(), include]
    objects = {source: scratch / f"{source.name}.o" for source in sources(cuda)}

    def compile_one(source: pathlib.Path) -> None:
        command = compile_cu if source.suffix == ".cu" else compile_cc
        _run([*command, "-c", str(source), "-o", str(objects[source])])

    with concurrent.futures.ThreadPoolExecutor(_NUM_JOBS) as pool:
        list(pool.map(compile_one, objects))
    target = scratch / "library.so"
    libraries = [*tf.sysconfig.get_link_flags(), "-lpthread"]
    _run([*link, "-shared", "-o", str(target), *map(str, objects.values()), *libraries])
    return target


def _run(command: Sequence[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"the compiler failed: {' '.join(command)}\n{result.stderr.strip()}")


def _name(cuda: bool) -> str:
    """Returns the file name of the library that the compilers make of the sources."""
    parts = [_version(compiler())]
    if cuda:
        parts += [_version(cuda_compiler()), *_architectures()]
    return f"{_prefix(cuda)}-{_digest([part.encode() for part in parts])}.so"


def _prefix(cuda: bool) -> str:
    """Returns the part of the name that tells what a library was made for and of."""
    parts = [flag.encode() for flag in (*_FLAGS, *(_CUDA_FLAGS if cuda else ()))]
    for path in sorted({*sources(cuda), *FOLDER.glob("*.h")}):
        parts += [path.name.encode(), path.read_bytes()]
    version = f"{tf.version.VERSION}-{_digest([tf.version.GIT_VERSION.encode()])[:6]}"
    kind = "ds2_ops-cuda" if cuda else "ds2_ops"
    return f"{kind}-tf{version}-{platform.machine()}-{_digest(parts)}"


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
