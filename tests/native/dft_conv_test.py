"""Tests the native convolution against float64 and TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from tests.native import dft_conv_library
from tests.native.compiled import TESTS, build
from tests.native.dft_conv_library import DftConvLibrary, Shape, output_size

# Of the largest absolute value of the map.
TOLERANCE = 1e-5

SHAPES = {
    "one frame": Shape(2, 1, 5, 3, 4, (3, 3)),
    "shorter than the kernel": Shape(3, 4, 6, 2, 5, (41, 21)),
    "kernel of one": Shape(2, 9, 7, 3, 2, (1, 1)),
    "one of everything": Shape(1, 1, 1, 1, 1, (1, 1)),
    "time alone": Shape(2, 30, 1, 33, 20, (11, 1), (2, 1)),
    "frequency alone": Shape(2, 5, 50, 3, 2, (1, 41), (1, 3)),
    "strides beyond the kernel": Shape(2, 20, 10, 2, 3, (1, 1), (3, 3)),
    "first of the paper": Shape(3, 70, 161, 1, 32, (11, 41), (2, 2)),
    "second of the paper": Shape(2, 80, 81, 32, 32, (11, 21), (1, 2)),
    "several groups of tiles": Shape(23, 70, 3, 2, 17, (5, 3)),
    "lanes across vectors": Shape(2, 40, 9, 33, 33, (5, 3), (2, 2)),
}


@pytest.fixture(scope="session")
def library(native_folder):
    sources = [*dft_conv_library.SOURCES, TESTS / "dft_conv_c_api.cc"]
    return DftConvLibrary(build(native_folder, "libdftconv.so", sources))


def random_inputs(shape, seed=0):
    """Returns x, lengths, kernel and y_gradient, with NaN past the lengths, one of them whole."""
    generator = np.random.default_rng(seed)
    x, kernel, y_gradient = (
        generator.normal(size=size).astype(np.float32)
        for size in (shape.x(), shape.weights(), shape.y())
    )
    lengths = generator.integers(0, shape.time + 1, shape.batch).astype(np.int32)
    lengths[generator.integers(shape.batch)] = shape.time
    for b, length in enumerate(lengths):
        x[b, length:] = np.nan
        y_gradient[b, output_size(length, shape.stride[0]) :] = np.nan
    return x, lengths, kernel, y_gradient


def assert_close(actual, expected, message=""):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale, err_msg=message)


def check(library, shape, seed=0):
    x, lengths, kernel, y_gradient = random_inputs(shape, seed)
    expected = dft_conv_library.reference(shape, x, lengths, kernel, y_gradient)
    for chosen in library.instruction_sets:
        y = library.forward(shape, x, lengths, kernel, instruction_set=chosen)
        gradients = library.gradients(shape, x, lengths, kernel, y_gradient, instruction_set=chosen)
        for actual, wanted in zip((y, *gradients), expected, strict=True):
            assert_close(actual, wanted, f"{shape} {lengths} set {chosen}")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_equals_the_definition(library, shape):
    check(library, shape)


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_definition_on_random_shapes(library, seed):
    generator = np.random.default_rng(seed)

    def size(most):
        return int(generator.integers(1, most + 1))

    def odd(most):
        return 2 * int(generator.integers(0, most // 2 + 1)) + 1

    long_kernel = seed % 2 == 0
    shape = Shape(
        batch=size(4),
        time=size((3, 40, 120)[seed % 3]),
        frequency=size(40),
        channels=size((2, 33)[seed // 2 % 2]),
        filters=size((2, 33)[seed // 4 % 2]),
        kernel=(odd(41), odd(9)) if long_kernel else (odd(9), odd(41)),
        stride=(size(3), size(3)),
    )
    check(library, shape, seed)


@pytest.mark.parametrize("stride", [(1, 1), (1, 2), (2, 2), (3, 1)], ids=str)
def test_equals_tensorflow(library, stride):
    shape = Shape(2, 50, 21, 4, 6, (11, 7), stride)
    generator = np.random.default_rng(1)
    x, kernel, y_gradient = (
        generator.normal(size=size).astype(np.float32)
        for size in (shape.x(), shape.weights(), shape.y())
    )
    lengths = np.full(shape.batch, shape.time, np.int32)
    with tf.GradientTape() as tape:
        inputs = tf.constant(x), tf.constant(kernel)
        tape.watch(inputs)
        padded = tf.pad(inputs[0], [[0, 0], [5, 5], [3, 3], [0, 0]])
        expected = tf.nn.conv2d(padded, inputs[1], stride, "VALID")
        objective = tf.reduce_sum(expected * y_gradient)
    assert_close(library.forward(shape, x, lengths, kernel), expected.numpy())
    gradients = library.gradients(shape, x, lengths, kernel, y_gradient)
    for actual, wanted in zip(gradients, tape.gradient(objective, inputs), strict=True):
        assert_close(actual, wanted.numpy())


@pytest.mark.parametrize("name", ["first of the paper", "several groups of tiles", "one frame"])
def test_threads_change_no_bit(library, name):
    shape = SHAPES[name]
    x, lengths, kernel, y_gradient = random_inputs(shape)
    for chosen in library.instruction_sets:
        results = []
        # Eight threads also cut the work into other groups.
        for num_threads in (1, 2, 8):
            options = {"instruction_set": chosen, "num_threads": num_threads}
            y = library.forward(shape, x, lengths, kernel, **options)
            gradients = library.gradients(shape, x, lengths, kernel, y_gradient, **options)
            results.append((y, *gradients))
        for result in results[1:]:
            for actual, expected in zip(result, results[0], strict=True):
                np.testing.assert_array_equal(actual, expected)


def test_one_gradient_equals_that_of_both(library):
    shape = Shape(3, 40, 11, 5, 18, (7, 5), (2, 1))
    x, lengths, kernel, y_gradient = random_inputs(shape)
    of_x, of_kernel = library.gradients(shape, x, lengths, kernel, y_gradient)
    alone, nothing = library.gradients(shape, None, lengths, kernel, y_gradient, of_kernel=False)
    assert nothing is None
    np.testing.assert_array_equal(alone, of_x)
    nothing, alone = library.gradients(shape, x, lengths, None, y_gradient, of_x=False)
    assert nothing is None
    np.testing.assert_array_equal(alone, of_kernel)


def test_padding_is_exactly_zero(library):
    shape = Shape(3, 33, 8, 4, 4, (5, 3), (2, 2))
    x, _, kernel, y_gradient = random_inputs(shape)
    x, y_gradient = np.nan_to_num(x), np.nan_to_num(y_gradient)
    lengths = np.array([33, 12, 0], np.int32)
    y = library.forward(shape, x, lengths, kernel)
    assert not y[1, 6:].any()
    assert not y[2].any()
    x_gradient, _ = library.gradients(shape, x, lengths, kernel, y_gradient)
    assert not x_gradient[1, 12:].any()
    assert not x_gradient[2].any()


def test_an_utterance_does_not_depend_on_its_batch(library):
    shape = Shape(5, 60, 9, 3, 4, (5, 3), (1, 2))
    x, lengths, kernel, _ = random_inputs(shape)
    together = library.forward(shape, x, lengths, kernel)
    alone = Shape(1, 60, 9, 3, 4, (5, 3), (1, 2))
    for b in range(shape.batch):
        y = library.forward(alone, x[b : b + 1].copy(), lengths[b : b + 1].copy(), kernel)
        assert_close(y[0], together[b])


def test_lengths_are_cut_to_the_tensor(library):
    shape = Shape(2, 20, 6, 2, 3, (3, 3))
    x, _, kernel, _ = random_inputs(shape)
    x = np.nan_to_num(x)
    y = library.forward(shape, x, np.array([25, -3], np.int32), kernel)
    expected = library.forward(shape, x, np.array([20, 0], np.int32), kernel)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    "shape",
    [Shape(0, 5, 3, 2, 2, (3, 3)), Shape(2, 0, 3, 2, 2, (3, 3))],
    ids=["no utterances", "no frames"],
)
def test_empty_tensors_have_zero_gradients(library, shape):
    x, kernel, y_gradient = (
        np.ones(size, np.float32) for size in (shape.x(), shape.weights(), shape.y())
    )
    lengths = np.zeros(shape.batch, np.int32)
    assert library.forward(shape, x, lengths, kernel).size == 0
    _, kernel_gradient = library.gradients(shape, x, lengths, kernel, y_gradient)
    assert not kernel_gradient.any()


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (Shape(1, 5, 3, 2, 2, (2, 3)), "kernel sizes must be odd and >= 1"),
        (Shape(1, 5, 3, 2, 2, (3, 3), (0, 1)), "strides must be >= 1"),
        (Shape(1, 5, 0, 2, 2, (3, 3)), "the tensors must have bins, channels and filters"),
        (Shape(1, 5, 3, 2, 2, (301, 3)), "the kernel is too long in time"),
        (Shape(1, 5, 2000, 2, 2, (3, 3)), "there are too many bins"),
        (Shape(1, 5, 3, 2, 2, (255, 3)), None),
    ],
)
def test_tells_what_it_cannot_do(library, shape, reason):
    assert library.why_unsupported(shape) == reason
