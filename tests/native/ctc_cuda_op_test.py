"""The operation for GPUs as far as it goes without one: over an emulated GPU, and compiled."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.native import compiled, ctc_library

# In a process of its own: operations are registered once.
LIBRARY_WITH_CUDA = """
import json
import sys

import tensorflow as tf
from absl import logging
from tensorflow.python.framework import kernels

from ds2_tf.native import build, ops
from ds2_tf.ops import ctc

gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
tf.config.get_visible_devices = lambda kind: [gpu]
logging.set_verbosity(logging.INFO)
arguments = [tf.constant(value) for value in json.loads(sys.argv[1])]
portable = ctc.ctc_loss(*arguments)
problem = ops._cuda_problem(build.library(cuda=True))
registered = kernels.get_registered_kernels_for_op("Ds2>CtcLoss").kernel
# The library is loaded, and without GPUs all of it is used.
tf.config.get_visible_devices = lambda kind: []
with tf.GradientTape() as tape:
    tape.watch(arguments[0])
    loss = ctc.ctc_loss(*arguments)
print(json.dumps({
    "problem": problem,
    "devices": sorted({kernel.device_type for kernel in registered}),
    "host_memory": [list(k.host_memory_arg) for k in registered if k.device_type == "GPU"],
    "portable": portable.numpy().tolist(),
    "native": loss.numpy().tolist(),
    "gradient": tape.gradient(loss, arguments[0]).numpy().tolist(),
    "has_recurrence": hasattr(ops.load(), "ds2_recurrence"),
}))
"""


def batch(num_symbols=7, dtype=tf.float32):
    """Returns logits, their lengths, labels, their lengths: repeats, an empty one, padding."""
    logits = np.random.default_rng(1).normal(size=[4, 9, num_symbols])
    labels = [[1, 2, 2, 0], [3, 0, 0, 0], [0, 0, 0, 0], [6, 5, 4, 3]]
    return [
        tf.constant(logits, dtype),
        tf.constant([9, 5, 3, 7]),
        tf.constant(labels),
        tf.constant([3, 1, 0, 4]),
    ]


@pytest.fixture(scope="session")
def emulated(native_folder):
    include = tf.sysconfig.get_include()
    path = compiled.build(
        native_folder,
        f"libctc_cuda_op-{tf.version.VERSION}.so",
        [*ctc_library.SOURCES, compiled.TESTS / "ctc_cuda_op_emulation.cc"],
        # Not -I: TensorFlow's own headers are not free of warnings. Only what differs in this
        # library is compared, so it needn't be fast.
        ["-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-isystem{include}"]
        + [flag for flag in tf.sysconfig.get_compile_flags() if flag.startswith("-D")]
        + ["-Wl,--no-as-needed", f"-Wl,-rpath,{tf.sysconfig.get_lib()}"]
        + tf.sysconfig.get_link_flags(),
    )
    return tf.load_op_library(str(path)).ds2_emulated_ctc_loss


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_it_gives_what_the_cpu_gives(emulated, native_operations, dtype):
    loss, gradient = emulated(*batch(dtype=dtype))
    expected_loss, expected = native_operations.ds2_ctc_loss(*batch(dtype=dtype))
    assert gradient.dtype == dtype
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    tolerance = 2e-5 if dtype == tf.float32 else 4e-3
    np.testing.assert_allclose(
        tf.cast(gradient, tf.float32), tf.cast(expected, tf.float32), atol=tolerance
    )


def test_time_major_and_another_blank(emulated, native_operations):
    logits, *target = batch()
    target[1] = tf.where(target[1] == 6, 0, target[1])
    arguments = [tf.transpose(logits, [1, 0, 2]), *target]
    attributes = {"time_major": True, "blank": 6}
    for ours, expected in zip(
        emulated(*arguments, **attributes),
        native_operations.ds2_ctc_loss(*arguments, **attributes),
        strict=True,
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(0, 5, 4, 2), (2, 0, 4, 0), (2, 3, 4, 0)])
def test_empty_shapes(emulated, native_operations, shape):
    num_utterances, num_frames, num_symbols, num_labels = shape
    arguments = [
        tf.ones([num_utterances, num_frames, num_symbols]),
        tf.fill([num_utterances], num_frames),
        tf.ones([num_utterances, num_labels], tf.int32),
        tf.zeros([num_utterances], tf.int32),
    ]
    for ours, expected in zip(
        emulated(*arguments), native_operations.ds2_ctc_loss(*arguments), strict=True
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=2e-5)


BAD = {
    "label": ((2, [[1, 7, 2, 0]]), r"outside \[0, V\) in batch rows 0"),
    "length": ((1, [10]), "longer than the tensor in batch rows 0"),
    "number of labels": ((3, [5]), "longer than the tensor in batch rows 0"),
    "infeasible": ((1, [3]), "need more frames than there are in batch rows 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_the_same_error_as_on_the_cpu(emulated, native_operations, case):
    (argument, row), message = BAD[case]
    arguments = batch()
    arguments[argument] = tf.concat([row, arguments[argument][1:]], axis=0)
    for operation in (emulated, native_operations.ds2_ctc_loss):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            operation(*arguments)


def test_infeasible_rows_can_count_for_nothing(emulated, native_operations):
    arguments = batch()
    arguments[1] = tf.constant([3, 5, 3, 3])
    loss, gradient = emulated(*arguments, infeasible="zero")
    expected_loss, expected = native_operations.ds2_ctc_loss(*arguments, infeasible="zero")
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    assert np.isinf(loss).tolist() == [True, False, False, True]
    np.testing.assert_allclose(gradient, expected, atol=2e-5)


def test_what_cuda_says_is_the_error(emulated):
    with pytest.raises(tf.errors.InternalError, match="CTC on the GPU: out of luck"):
        emulated(*batch(num_symbols=13))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.skipif(bool(tf.config.get_visible_devices("GPU")), reason="a GPU")
def test_the_library_with_cuda_loads_without_gpu_and_serves_the_cpu(native_operations):
    arguments = batch()
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            LIBRARY_WITH_CUDA,
            json.dumps([a.numpy().tolist() for a in arguments]),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    # CUDA's words depend on whether there is a driver.
    assert found["problem"]
    assert (
        f"native CTC is not used on the GPU, TensorFlow's is: {found['problem']}" in result.stderr
    )
    assert found["devices"] == ["CPU", "GPU"]
    assert found["host_memory"] == [["logit_lengths", "labels", "label_lengths"]] * 3
    expected, gradient = native_operations.ds2_ctc_loss(*arguments)
    np.testing.assert_allclose(found["native"], expected, rtol=1e-6)
    np.testing.assert_allclose(found["gradient"], gradient, atol=1e-6)
    np.testing.assert_allclose(found["portable"], expected, rtol=1e-6)
    assert found["has_recurrence"]
