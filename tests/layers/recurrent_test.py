import numpy as np
import pytest

from ds2_tf.layers.recurrent import Recurrent


def clip(x):
    return np.clip(x, 0, 20)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(x, layer, cell):
    """One utterance [T, D] in float64: both directions, summed."""
    kernel, recurrent = (
        np.asarray(v.value, np.float64) for v in (layer.kernel, layer.recurrent_kernel)
    )
    bias = np.asarray(layer.bias.value, np.float64)
    total, n = 0, layer.units
    size = recurrent.shape[-1]
    for direction, weights in enumerate(recurrent):
        own = slice(None) if layer.shared_input else slice(direction * size, (direction + 1) * size)
        h, memory, states = np.zeros(n), np.zeros(n), []
        for frame in x[::-1] if direction else x:
            a, b = frame @ kernel[:, own] + bias[own], h @ weights
            if cell == "rnn":
                h = clip(a + b)
            elif cell == "lstm":
                i, f, o, g = np.split(a + b, 4)
                memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(memory)
            else:
                z, r = sigmoid(a[:n] + b[:n]), sigmoid(a[n : 2 * n] + b[n : 2 * n])
                h = (1 - z) * h + z * clip(a[2 * n :] + r * b[2 * n :])
            states.append(h)
        total = total + np.array(states[::-1] if direction else states)
    return total


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(
    ("bidirectional", "shared_input"), [(True, True), (True, False), (False, True)]
)
def test_each_utterance_equals_its_own_recurrence(cell, bidirectional, shared_input):
    generator = np.random.default_rng(0)
    lengths = np.array([6, 1, 0, 4], np.int32)
    x = generator.normal(size=(4, 8, 5)).astype(np.float32)
    layer = Recurrent(3, cell, bidirectional, batch_norm=False, shared_input=shared_input)
    layer.build(x.shape)
    layer.bias.assign(generator.normal(size=layer.bias.shape))
    for row, length in zip(x, lengths, strict=True):
        row[length:] = np.nan
    y = layer(x, lengths).numpy()
    for i, length in enumerate(lengths):
        if length:
            expected = reference(x[i, :length], layer, cell)
            np.testing.assert_allclose(y[i, :length], expected, rtol=1e-5, atol=1e-5)
        assert not y[i, length:].any()


def test_directions_share_the_input_weights():
    layer = Recurrent(3, "gru")
    layer.build((None, None, 5))
    shapes = {variable.path.split("/", 1)[1]: tuple(variable.shape) for variable in layer.weights}
    assert shapes["kernel"] == (5, 9)
    assert shapes["recurrent_kernel"] == (2, 3, 9)


def test_wrong_arguments_are_named():
    with pytest.raises(
        ValueError, match=r"cell must be one of \('rnn', 'gru', 'lstm'\). Received: 'elman'"
    ):
        Recurrent(3, "elman")
    with pytest.raises(ValueError, match="units must be >= 1. Received: 0"):
        Recurrent(0)
