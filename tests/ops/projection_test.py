import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.ops.projection import projection


@pytest.mark.parametrize("lengths", [(5, 0, 3), (0, 0, 0), (5, 5, 5)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.usefixtures("way")
def test_products_of_the_valid_frames_and_their_gradients(with_bias, lengths):
    generator = np.random.default_rng(0)
    clean, by_y = generator.normal(size=(3, 5, 4)), generator.normal(size=(3, 5, 6))
    kernel, bias = generator.normal(size=(4, 6)), generator.normal(size=6)
    x = clean.copy()
    for b, length in enumerate(lengths):
        clean[b, length:], x[b, length:] = 0, np.nan

    @tf.function(input_signature=[tf.TensorSpec(size) for size in ([None, None, 4], [4, 6], [6])])
    def differentiate(*sources):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            y = projection(sources[0], tf.constant(lengths), *sources[1 : 3 if with_bias else 2])
        assert y.shape.rank == 3
        assert y.shape[2] == 6
        return y, *tape.gradient(y, sources, tf.constant(by_y, tf.float32))

    y, by_x, by_kernel, by_bias = differentiate(*(np.float32(a) for a in (x, kernel, bias)))
    valid = np.arange(5) < np.array(lengths)[:, np.newaxis]
    expected = clean @ kernel + bias * with_bias
    np.testing.assert_allclose(y, np.where(valid[..., np.newaxis], expected, 0), atol=1e-5)
    if with_bias:
        np.testing.assert_allclose(by_bias, by_y[valid].sum(0), atol=1e-5)
    np.testing.assert_allclose(by_x, valid[..., np.newaxis] * (by_y @ kernel.T), atol=1e-5)
    np.testing.assert_allclose(by_kernel, np.einsum("btd,btn->dn", clean, by_y), atol=1e-4)
