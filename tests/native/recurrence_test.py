import os
import subprocess

import numpy as np
import pytest

from tests.native import recurrence_reference as reference
from tests.native.compiled import SANITIZERS, TESTS, build
from tests.native.recurrence_library import CELLS, SOURCES, Inputs, RecurrenceLibrary


@pytest.fixture(scope="session")
def library(native_folder):
    sources = [*SOURCES, TESTS / "recurrence_c_api.cc"]
    return RecurrenceLibrary(build(native_folder, "librecurrence.so", sources))


def random_inputs(
    cell="rnn", directions=2, units=20, lengths=(7, 0, 12, 1), shared=True, states=False, seed=0
):
    """Inputs whose clipped ReLUs meet both edges."""
    generator = np.random.default_rng(seed)
    lengths = list(lengths)
    num_utterances, num_frames = len(lengths), max(lengths, default=0) + 1
    values = CELLS[cell][1] * units

    def normal(scale, *shape):
        return generator.normal(0, scale, shape).astype(np.float32)

    projected = normal(9, num_utterances, num_frames, values * (1 if shared else directions))
    if cell == "gru":
        projected[..., : projected.shape[-1] // 3 * 2] /= 5
    outer = normal(1, num_utterances, num_frames, units)
    for b, length in enumerate(lengths):
        projected[b, length:] = np.nan
        outer[b, length:] = np.nan
    states = [normal(3, directions, num_utterances, units) if states else None for _ in range(2)]
    weights = normal(1 / np.sqrt(units), directions, units, values)
    return Inputs(cell, lengths, projected, weights, outer, *states)


def assert_close(ours, theirs, tolerance):
    """Compares all arrays by their L2 norm: a unit at the clip's edge may fall to either side."""
    for name, expected in vars(theirs).items():
        actual = getattr(ours, name)
        assert not np.isnan(actual).any(), name
        error = np.linalg.norm(actual - expected) / (np.linalg.norm(expected) + 1e-30)
        assert error < tolerance, (name, error)


CASES = {
    "ragged": {},
    "one direction": {"directions": 1},
    "unshared": {"shared": False},
    "states": {"states": True, "shared": False},
    "one utterance": {"lengths": [9], "states": True},
    "one frame": {"lengths": [1, 1, 1]},
    "no frames": {"lengths": [0, 0], "states": True},
    "no utterances": {"lengths": []},
    "many utterances": {"lengths": [*range(1, 38)], "units": 33},
    "one unit": {"units": 1, "states": True},
    "whole vectors": {"units": 96, "lengths": [5, 8]},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cell", CELLS)
def test_equals_float64(library, cell, case):
    inputs = random_inputs(cell, **CASES[case])
    expected = {
        "float32": reference.run(inputs),
        "bfloat16": reference.run(inputs, reference.to_bfloat16),
    }
    # A state near the middle of two bfloat16 numbers rounds to either.
    tolerances = {"float32": 1e-5, "bfloat16": 2e-3}
    for precision, instruction_set in library.kernels:
        results = library.run(inputs, precision, instruction_set)
        assert_close(results, expected[precision], tolerances[precision])


def test_both_edges_of_the_clip_are_met():
    outputs = reference.run(random_inputs(directions=1)).outputs
    assert (outputs == 20).sum() > 5
    assert (outputs[0, :7] == 0).sum() > 10


@pytest.mark.parametrize("cell", CELLS)
def test_reference_gradient_equals_finite_differences(cell):
    inputs = random_inputs(cell, units=3, lengths=[4, 2], states=True)
    inputs.projected[np.isnan(inputs.projected)] = 0
    inputs.by_outputs[np.isnan(inputs.by_outputs)] = 0
    arrays = {
        name: getattr(inputs, name).astype(np.float64)
        for name in ("projected", "weights", "initial")
    }

    def loss():
        results = reference.run(
            Inputs(cell, inputs.lengths, by_outputs=inputs.by_outputs, by_final=None, **arrays)
        )
        return np.sum(results.outputs * inputs.by_outputs) + np.sum(results.final * inputs.by_final)

    results = reference.run(inputs)
    for name, array in arrays.items():
        difference = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            value = array[index]
            array[index] = value + 1e-6
            difference[index] = loss()
            array[index] = value - 1e-6
            difference[index] = (difference[index] - loss()) / 2e-6
            array[index] = value
        np.testing.assert_allclose(getattr(results, f"by_{name}"), difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_threads_change_no_bit(library, cell):
    inputs = random_inputs(cell, units=72, lengths=[*range(40)], states=True)
    for precision, instruction_set in library.kernels:
        one, two, seven = (library.run(inputs, precision, instruction_set, n) for n in (1, 2, 7))
        for name, array in vars(one).items():
            np.testing.assert_array_equal(array, getattr(two, name))
            np.testing.assert_array_equal(array, getattr(seven, name))


def test_utterances_do_not_depend_on_their_batch(library):
    inputs = random_inputs("gru", lengths=[5, 9, 3])
    together = library.run(inputs)
    for b, length in enumerate(inputs.lengths):
        alone = library.run(
            Inputs(
                "gru",
                [length],
                inputs.projected[b, None],
                inputs.weights,
                inputs.by_outputs[b, None],
            )
        )
        np.testing.assert_array_equal(alone.outputs[0], together.outputs[b])
        np.testing.assert_array_equal(alone.by_projected[0], together.by_projected[b])


@pytest.mark.parametrize("cell", CELLS)
def test_nan_spreads(library, cell):
    inputs = random_inputs(cell, directions=1, lengths=[6])
    inputs.projected[0, 2, -1] = np.nan
    for instruction_set in library.instruction_sets:
        outputs = library.run(inputs, instruction_set=instruction_set).outputs
        assert not np.isnan(outputs[0, :2]).any()
        assert np.isnan(outputs[0, 2, -1])
        assert np.isnan(outputs[0, 3:6]).all()


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 7, 3), (70, 100, 600), (530, 210, 40), (33, 900, 17), (4, 5, 0)]
)
def test_products(library, shape, transposed):
    rows, columns, depth = shape
    generator = np.random.default_rng(depth)
    a = generator.normal(size=(rows, depth)).astype(np.float32)
    b = generator.normal(size=(depth, columns)).astype(np.float32)
    c = generator.normal(size=(rows, columns)).astype(np.float32)
    expected = {
        "float32": a.astype(np.float64) @ b,
        "bfloat16": reference.to_bfloat16(a) @ reference.to_bfloat16(b),
    }
    for precision, instruction_set in library.kernels:
        for add_to in (None, c):
            one, three = (
                library.multiply(a, b, transposed, add_to, precision, instruction_set, threads)
                for threads in (1, 3)
            )
            wanted = expected[precision] + (0 if add_to is None else c)
            np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(one, three)


def test_sanitizers_find_nothing(native_folder):
    sources = [*SOURCES, TESTS / "recurrence_driver.cc"]
    program = build(native_folder, "recurrence_driver", sources, SANITIZERS)
    subprocess.run([program], check=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"})
