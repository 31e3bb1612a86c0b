"""What is compiled of KenLM: the library that scores, the programs that estimate.

The library holds KenLM's own sources for queries, so that no package of KenLM's needs to be
installed; it takes a C++ compiler alone. The programs `lmplz` and `build_binary` are the PATH's, or
are compiled too, for which Boost must be there.
"""

import pathlib
import platform
import shutil
import subprocess
from collections.abc import Sequence

from ds2_tf.errors import UserError
from ds2_tf.native import compiling, kenlm_source

ADAPTER = compiling.FOLDER / "decoder" / "kenlm_adapter.cc"
_HEADERS = (compiling.FOLDER / "decoder" / "language_model.h",)

_QUERY_FOLDERS = ("util", "util/double-conversion", "lm")
_PROGRAM_FOLDERS = (*_QUERY_FOLDERS, "util/stream", "lm/common", "lm/builder")
_PROGRAMS = {"lmplz": "lm/builder/lmplz_main.cc", "build_binary": "lm/build_binary_main.cc"}
_NO_PART = ("_test", "_main", "_benchmark")
_BOOST = ("-lboost_program_options", "-lboost_thread", "-lboost_system", "-lpthread")
_BOOST_HEADERS = ("program_options", "thread/mutex", "ptr_container/ptr_vector")
_BOOST_PACKAGES = "libboost-program-options-dev libboost-thread-dev libboost-system-dev"


def library(folder: pathlib.Path | None = None) -> pathlib.Path:
    """Returns the library around KenLM (`decoder/kenlm_adapter.cc`); compiles it if need be.

    Args:
      folder: where to compile it into, the cache by default. Without one, a library beside the
        sources is taken too, which needs neither compiler nor KenLM's sources.

    Raises:
      UserError: when KenLM's sources cannot be had.
      compiling.BuildError: when there is no compiler or it reports errors.
    """
    prefix = f"ds2_kenlm-{platform.machine()}-{_digest([ADAPTER, *_HEADERS])}"
    if folder is None and (prebuilt := sorted(compiling.PREBUILT.glob(f"{prefix}-*.so"))):
        return prebuilt[0]
    path = (folder or compiling.cache_folder()) / f"{prefix}-{_compiler_digest()}.so"
    return path if path.exists() else compiling.make(path, _compile_library)


def program(name: str) -> pathlib.Path:
    """Returns the path of "lmplz" or "build_binary": the PATH's, or one compiled once.

    Raises:
      UserError: when it is not there and cannot be compiled, with what to install.
    """
    if found := shutil.which(name):
        return pathlib.Path(found)
    try:
        target = compiling.cache_folder() / f"{name}-{_digest([])}-{_compiler_digest()}"
        if target.exists():
            return target
        if name == "lmplz":
            _require_boost()
        return compiling.make(target, lambda scratch: _compile_program(name, scratch))
    except compiling.BuildError as error:
        raise UserError(
            f"{name}: is not on the PATH and cannot be compiled: {_first_line(error)}; install "
            f"what it takes (Debian: apt install g++ {_BOOST_PACKAGES})"
        ) from error


def sources(root: pathlib.Path, folders: Sequence[str]) -> list[pathlib.Path]:
    """Returns KenLM's source files in folders, without tests and programs."""
    paths = [path for folder in folders for path in sorted((root / folder).glob("*.cc"))]
    return [path for path in paths if not path.stem.endswith(_NO_PART)]


def _compile_library(scratch: pathlib.Path) -> pathlib.Path:
    root = kenlm_source.folder()
    command = [*_command(root), f"-I{compiling.FOLDER.parents[1]}"]
    return compiling.build_in(
        scratch,
        [ADAPTER, *sources(root, _QUERY_FOLDERS)],
        lambda _: command,
        [compiling.compiler(), "-pthread"],
    )


def _compile_program(name: str, scratch: pathlib.Path) -> pathlib.Path:
    root = kenlm_source.folder()
    folders = _PROGRAM_FOLDERS if name == "lmplz" else _QUERY_FOLDERS
    paths = [root / _PROGRAMS[name], *sources(root, folders)]
    objects = compiling.compile_objects(scratch, paths, lambda _: _command(root))
    libraries = _BOOST if name == "lmplz" else ("-lpthread",)
    target = scratch / name
    compiling.run([compiling.compiler(), *map(str, objects), "-o", str(target), *libraries])
    return target


def _require_boost() -> None:
    """Raises `BuildError` when the compiler doesn't find the headers of Boost."""
    result = subprocess.run(
        [compiling.compiler(), "-fsyntax-only", "-x", "c++", "-"],
        input="".join(f"#include <boost/{name}.hpp>\n" for name in _BOOST_HEADERS),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise compiling.BuildError("the C++ library Boost is missing")


def _command(root: pathlib.Path) -> list[str]:
    return [compiling.compiler(), *kenlm_source.FLAGS, "-w", f"-I{root}"]


def _digest(files: Sequence[pathlib.Path]) -> str:
    parts = [kenlm_source.SHA256, *kenlm_source.FLAGS, compiling.digest_of_files(files)]
    return compiling.digest([part.encode() for part in parts])


def _compiler_digest() -> str:
    return compiling.digest([compiling.version(compiling.compiler())])


def _first_line(error: Exception) -> str:
    """Returns what the compiler complains about, without the command."""
    command, _, messages = str(error).partition("\n")
    return next((line for line in messages.splitlines() if "error" in line), command)
