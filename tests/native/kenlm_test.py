import os
import pathlib
import shutil
import subprocess

import pytest

from ds2_tf.errors import UserError
from ds2_tf.native import compiling, kenlm, kenlm_source

APT = (
    "install what it takes (Debian: apt install g++ libboost-program-options-dev "
    "libboost-thread-dev libboost-system-dev)"
)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A compiler that only notes how it was called, sources for it, and no programs on the PATH."""
    compiler = tmp_path / "compiler"
    compiler.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "fake 1.0"; exit; fi\n'
        f'echo "$@" >> {tmp_path}/calls\n'
        f'if [ "$1" = -fsyntax-only ]; then [ ! -e {tmp_path}/no_boost ]; exit; fi\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'echo made > "$2"\n'
    )
    compiler.chmod(0o755)
    sources = tmp_path / "kenlm"
    for name in (
        "lm/model.cc",
        "lm/model_test.cc",
        "lm/query_main.cc",
        "lm/build_binary_main.cc",
        "lm/builder/lmplz_main.cc",
        "lm/builder/pipeline.cc",
        "lm/common/print.cc",
        "util/file.cc",
        "util/double-conversion/bignum.cc",
        "util/stream/chain.cc",
    ):
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"// {name}")
    which = shutil.which
    programs = ("lmplz", "build_binary")
    monkeypatch.setattr(shutil, "which", lambda name: None if name in programs else which(name))
    monkeypatch.setattr(kenlm_source, "folder", lambda: sources)
    monkeypatch.setattr(compiling, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("DS2_TF_CACHE", str(tmp_path / "cache"))
    return tmp_path


def calls(folder):
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def compiled(folder):
    """The names of the sources that were compiled, of the calls so far."""
    return sorted(
        pathlib.Path(call.split(" -c ")[1].split()[0]).name
        for call in calls(folder)
        if " -c " in call
    )


def test_the_library_is_the_adapter_with_what_queries_need(fake):
    path = kenlm.library()
    assert path.parent == fake / "cache"
    assert compiled(fake) == ["bignum.cc", "file.cc", "kenlm_adapter.cc", "model.cc"]
    assert "-DKENLM_MAX_ORDER=6" in calls(fake)[0]
    assert " -shared " in calls(fake)[-1]
    assert kenlm.library() == path
    assert len(calls(fake)) == 5


def test_a_library_beside_the_sources_needs_neither_compiler_nor_sources(fake, monkeypatch):
    path = kenlm.library(fake / "prebuilt")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(kenlm_source, "folder", None)
    assert kenlm.library() == path


def test_without_a_compiler_there_is_no_library(fake, monkeypatch):
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(compiling.BuildError, match="no C\\+\\+ compiler was found; install one"):
        kenlm.library()


def test_programs_of_the_path_are_taken(fake, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/{name}")
    assert kenlm.program("lmplz") == pathlib.Path("/opt/lmplz")
    assert not calls(fake)


def test_programs_are_compiled_once(fake):
    lmplz, build_binary = kenlm.program("lmplz"), kenlm.program("build_binary")
    assert [path.read_text() for path in (lmplz, build_binary)] == ["made\n"] * 2
    links = [call for call in calls(fake) if " -c " not in call and "-fsyntax-only" not in call]
    assert "-lboost_program_options" in links[0]
    assert "boost" not in links[1]
    assert not any("-shared" in call for call in links)
    queries = ["bignum.cc", "file.cc", "model.cc"]
    lmplz_alone = ["chain.cc", "lmplz_main.cc", "pipeline.cc", "print.cc"]
    assert compiled(fake) == sorted([*queries, *lmplz_alone, *queries, "build_binary_main.cc"])
    done = len(calls(fake))
    assert (kenlm.program("lmplz"), kenlm.program("build_binary")) == (lmplz, build_binary)
    assert len(calls(fake)) == done


def check_error(message):
    with pytest.raises(UserError) as error:
        kenlm.program("lmplz")
    assert str(error.value) == message


def test_without_boost_the_packages_are_named(fake):
    (fake / "no_boost").touch()
    check_error(
        f"lmplz: is not on the PATH and cannot be compiled: the C++ library Boost is missing; {APT}"
    )
    assert kenlm.program("build_binary").exists()


def test_without_a_compiler_the_packages_are_named(fake, monkeypatch):
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    check_error(
        "lmplz: is not on the PATH and cannot be compiled: no C++ compiler was found; install one "
        f"(Debian: apt install g++); {APT}"
    )


def test_what_the_compiler_says_is_told_in_one_line(fake):
    path = pathlib.Path(os.environ["CXX"])
    path.write_text(
        path.read_text() + 'echo "In file x:" >&2; echo "x.cc:1: error: no" >&2; exit 1'
    )
    check_error(f"lmplz: is not on the PATH and cannot be compiled: x.cc:1: error: no; {APT}")


def test_the_real_library_leaves_nothing_of_kenlm_s_visible():
    try:
        library = kenlm.library()
    except (UserError, compiling.BuildError) as error:
        pytest.skip(str(error))
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    symbols = subprocess.run(
        ["nm", "--dynamic", "--defined-only", str(library)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    strong = [line.split()[-1] for line in symbols.splitlines() if line.split()[-2] == "T"]
    assert sorted(strong) == [
        "ds2_kenlm_close",
        "ds2_kenlm_functions",
        "ds2_kenlm_open",
        "ds2_kenlm_order",
        "ds2_kenlm_score",
        "ds2_kenlm_words",
    ]
