"""The recipe of the native TensorFlow operations: compile once, keep, load.

The library is compiled at its first use and kept (`ds2_tf.native.compiling`), under a name that
holds TensorFlow's version too. `ds2 build_ops` compiles ahead of time, also into a folder that
travels with the package.

With CUDA there is a second one, which holds the kernels for GPUs besides. CUDA's own library is
linked into it, so that it loads, and its kernels for CPUs run, on machines without GPU too.
"""

import os
import pathlib
import platform
import re
import shutil

import tensorflow as tf

from ds2_tf.native import compiling
from ds2_tf.native.compiling import BuildError, cache_folder, compiler

__all__ = ["BuildError", "build", "cache_folder", "compiler", "cuda_compiler", "library", "sources"]

FOLDER = compiling.FOLDER
PREBUILT = compiling.PREBUILT

_CUDA_FLAGS = ("-std=c++17", "-O3", "-w", "-Xcompiler=-fPIC,-fvisibility=hidden")


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


def build(folder: str | os.PathLike, cuda: bool = False) -> pathlib.Path:
    """Compiles the library into a folder, whole or not at all, unless it is there already.

    With `cuda` it gets kernels for GPUs too: of the architectures that $DS2_TF_CUDA_ARCHS lists, as
    in "80,90", by default of every generation that nvcc knows. Newer GPUs than these run them too.

    Raises:
      BuildError: as `library`.
    """
    path = pathlib.Path(folder) / _name(cuda)
    return compiling.make(path, lambda scratch: _compile(scratch, cuda))


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
    tensorflow_flags = tf.sysconfig.get_compile_flags()
    compile_cc = [compiler(), *compiling.FLAGS, "-w", *tensorflow_flags, include]
    link = [compiler()]
    if cuda:
        # As a linker it adds CUDA's own library, in the static form.
        link = [cuda_compiler(), f"-ccbin={compiler()}", "-cudart=static"]
        compile_cu = [*link, *_CUDA_FLAGS, *_architectures(), include]
    return compiling.build_in(
        scratch,
        sources(cuda),
        lambda source: compile_cu if source.suffix == ".cu" else compile_cc,
        link,
        [*tf.sysconfig.get_link_flags(), "-lpthread"],
    )


def _name(cuda: bool) -> str:
    """Returns the file name of the library that the compilers make of the sources."""
    parts = [compiling.version(compiler())]
    if cuda:
        architectures = [option.encode() for option in _architectures()]
        parts += [compiling.version(cuda_compiler()), *architectures]
    return f"{_prefix(cuda)}-{compiling.digest(parts)}.so"


def _prefix(cuda: bool) -> str:
    """Returns the part of the name that tells what a library was made for and of."""
    flags = [flag.encode() for flag in (*compiling.FLAGS, *(_CUDA_FLAGS if cuda else ()))]
    files = compiling.digest_of_files(list({*sources(cuda), *FOLDER.glob("*.h")}))
    tensorflow = compiling.digest([tf.version.GIT_VERSION.encode()])[:6]
    kind = "ds2_ops-cuda" if cuda else "ds2_ops"
    machine = f"{platform.machine()}-{compiling.digest([*flags, files.encode()])}"
    return f"{kind}-tf{tf.version.VERSION}-{tensorflow}-{machine}"
