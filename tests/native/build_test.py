import logging
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.native import build, decoder_library, kenlm, ops
from ds2_tf.ops import batch_norm, ctc


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


@pytest.fixture
def fake_cuda(fake, monkeypatch):
    """An nvcc that does as the compiler, and sources for it."""
    (build.FOLDER / "two.cu").write_text("int two;")
    (build.FOLDER / "two_cuda_op.cc").write_text("int op;")
    nvcc = fake / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    shutil.copy(os.environ["CXX"], nvcc)
    monkeypatch.setenv("CUDA_HOME", str(fake / "cuda"))
    monkeypatch.delenv("DS2_TF_CUDA_ARCHS", raising=False)
    return fake


def test_with_cuda_it_is_another_library(fake_cuda):
    without = build.library()
    assert len(calls(fake_cuda)) == 2  # one source, one link
    path = build.library(cuda=True)
    assert path != without
    assert "cuda" in path.name
    assert "cuda" not in without.name
    *compiled, link = calls(fake_cuda)[2:]
    assert len(compiled) == 3
    assert all(name in " ".join(compiled) for name in ("one.cc", "two.cu", "two_cuda_op.cc"))
    (by_nvcc,) = [call for call in compiled if "two.cu " in call]
    for call in (by_nvcc, link):
        assert call.startswith(f"-ccbin={os.environ['CXX']} -cudart=static ")
    assert "-arch=all-major" in by_nvcc
    assert build.library(cuda=True) == path
    (build.FOLDER / "two.cu").write_text("int three;")
    assert build.library() == without
    assert build.library(cuda=True) != path


def test_architectures_are_a_list(fake_cuda, monkeypatch):
    every = build.library(cuda=True)
    monkeypatch.setenv("DS2_TF_CUDA_ARCHS", "90, 80")
    assert build.library(cuda=True) != every
    (by_nvcc,) = [call for call in calls(fake_cuda) if "compute_80,code=sm_80" in call]
    assert "compute_90,code=sm_90" in by_nvcc
    assert "compute_90,code=compute_90" in by_nvcc
    assert "compute_80,code=compute_80" not in by_nvcc
    monkeypatch.setenv("DS2_TF_CUDA_ARCHS", "hopper")
    with pytest.raises(build.BuildError, match='DS2_TF_CUDA_ARCHS must be a list as in "80,90"'):
        build.library(cuda=True)


def test_without_nvcc_there_is_no_library_with_cuda(fake, monkeypatch):
    monkeypatch.delenv("CUDA_HOME", raising=False)
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if "nvcc" in name else which(name))
    with pytest.raises(build.BuildError, match="no nvcc was found; install the CUDA toolkit"):
        build.library(cuda=True)


def test_a_library_with_cuda_beside_the_sources_serves_without_gpu(fake_cuda, monkeypatch):
    path = build.build(build.PREBUILT, cuda=True)
    monkeypatch.setenv("PATH", "")
    assert build.library() == build.library(cuda=True) == path


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
    def fail(cuda):
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


@pytest.fixture
def seen_gpu(monkeypatch):
    """A faked list of devices, and nothing loaded yet."""
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "get_visible_devices", {"GPU": [gpu]}.__getitem__)
    for cached in (ops._library, ops._tell_what_runs_on_gpus):
        cached.cache_clear()
    yield
    for cached in (ops._library, ops._tell_what_runs_on_gpus):
        cached.cache_clear()


def test_where_there_is_a_gpu_but_no_nvcc_all_is_portable(seen_gpu, monkeypatch, caplog):
    def fail(cuda):
        assert cuda
        raise build.BuildError("no nvcc was found")

    monkeypatch.setattr(build, "library", fail)
    logits, lengths = tf.zeros([1, 3, 4]), tf.constant([3])
    with caplog.at_level(logging.INFO, logger="absl"):
        assert ops.load() is None
        assert not batch_norm.is_native(tf.float32)
        for _ in range(2):
            loss = ctc.ctc_loss(logits, lengths, tf.constant([[1, 2]]), tf.constant([2]))
    np.testing.assert_allclose(loss, [3 * np.log(4) - np.log(5)], rtol=1e-6)
    assert caplog.messages == [
        "there is a GPU: TensorFlow's own operations run, natively CTC alone if it can",
        "native CTC is not used on the GPU, TensorFlow's is: no nvcc was found",
    ]


@pytest.mark.parametrize("problem", ["", "no kernel image is available"])
def test_where_there_is_a_gpu_only_ctc_is_native_if_cuda_agrees(
    seen_gpu, monkeypatch, caplog, problem
):
    loaded = object()
    monkeypatch.setattr(build, "library", lambda cuda: pathlib.Path(f"made_{cuda}.so"))
    monkeypatch.setattr(tf, "load_op_library", {"made_True.so": loaded}.__getitem__)
    monkeypatch.setattr(ops, "_cuda_problem", lambda path: problem)
    with caplog.at_level(logging.INFO, logger="absl"):
        assert ops.load() is None
        assert ops.load(has_gpu_kernel=True) is (None if problem else loaded)
        with ops.portable():
            assert ops.load(has_gpu_kernel=True) is None
    assert caplog.messages[1:] == [
        f"native CTC is not used on the GPU, TensorFlow's is: {problem} (made_True.so)"
        if problem
        else "native CTC on the GPU: made_True.so"
    ]


def test_build_ops_prints_where_the_libraries_are():
    result = subprocess.run(
        [sys.executable, "-m", "ds2_tf.bin.build_ops", "--kenlm"],
        capture_output=True,
        text=True,
        check=False,
    )
    if shutil.which("g++") is None:
        assert result.returncode == 1
        assert result.stderr.startswith("error: no C++ compiler was found")
    else:
        libraries = [build.library(), decoder_library.library(), kenlm.library()]
        assert result.stdout.split() == list(map(str, libraries))
