import logging
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from ds2_tf.native import build, ops


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A compiler that only notes how it was called, and one small source."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "one.cc").write_text("int one;")
    (sources / "one_test.cc").write_text("not compiled")
    compiler = tmp_path / "compiler"
    compiler.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "fake 1.0"; exit; fi\n'
        f'echo "$@" >> {tmp_path}/calls\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'echo made > "$2"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("DS2_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "FOLDER", sources)
    monkeypatch.setattr(build, "PREBUILT", sources / "prebuilt")
    return tmp_path


def calls(folder):
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_it_compiles_once_and_then_finds_the_library(fake):
    path = build.library()
    assert path.parent == fake / "cache"
    assert path.read_text() == "made\n"
    assert len(calls(fake)) == 2  # one source, one link
    assert "one_test" not in " ".join(calls(fake))
    assert build.library() == path
    assert len(calls(fake)) == 2
    assert sorted(p.suffix for p in path.parent.iterdir()) == [".lock", ".so"]


def test_changed_sources_and_another_compiler_make_another_library(fake):
    first = build.library()
    (build.FOLDER / "one.cc").write_text("int two;")
    second = build.library()
    compiler = pathlib.Path(os.environ["CXX"])
    compiler.write_text(compiler.read_text().replace("fake 1.0", "fake 2.0"))
    assert len({first, second, build.library()}) == 3


def test_a_library_beside_the_sources_needs_no_compiler(fake, monkeypatch):
    path = build.build(build.PREBUILT)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    assert build.library() == path
    (build.FOLDER / "one.cc").write_text("int changed;")
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler was found; install one"):
        build.library()


def test_errors_of_the_compiler_are_shown_and_nothing_is_left(fake):
    pathlib.Path(os.environ["CXX"]).write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit\necho "one.cc:1: error: no" >&2\nexit 1\n'
    )
    with pytest.raises(build.BuildError) as error:
        build.library()
    assert str(error.value).startswith("the compiler failed: ")
    assert str(error.value).endswith("one.cc:1: error: no")
    assert [p.suffix for p in (fake / "cache").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_is_named(fake, monkeypatch):
    (fake / "file").write_text("")
    monkeypatch.setenv("DS2_TF_CACHE", str(fake / "file" / "cache"))
    with pytest.raises(build.BuildError, match="cannot be written .*; set DS2_TF_CACHE to another"):
        build.library()


def test_several_processes_compile_once(fake):
    context = multiprocessing.get_context("fork")
    with context.Pool(4) as pool:
        paths = pool.starmap(build.library, [()] * 4)
    assert len(set(paths)) == 1
    assert len(calls(fake)) == 2


def test_without_a_compiler_a_warning_says_why_once(monkeypatch, caplog):
    def fail():
        raise build.BuildError("no C++ compiler was found; install one (Debian: apt install g++)")

    monkeypatch.setattr(build, "library", fail)
    ops._library.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, logger="absl"):
            assert ops.load() is None
            assert ops.load() is None
    finally:
        ops._library.cache_clear()
    assert caplog.messages == [
        "native operations are not used, TensorFlow's are: no C++ compiler was found; install one "
        "(Debian: apt install g++)"
    ]


def test_nothing_native_within_portable(native_operations):
    assert ops.load() is native_operations
    with ops.portable():
        assert ops.load() is None
    assert ops.load() is native_operations


def test_build_ops_prints_where_the_library_is():
    result = subprocess.run(
        [sys.executable, "-m", "ds2_tf.bin.build_ops"], capture_output=True, text=True, check=False
    )
    if shutil.which("g++") is None:
        assert result.returncode == 1
        assert result.stderr.startswith("error: no C++ compiler was found")
    else:
        assert result.stdout.strip() == str(build.library())
