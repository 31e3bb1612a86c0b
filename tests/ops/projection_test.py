import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.ops.projection import projection


@pytest.mark.parametrize("lengths", [(5, 0, 3), (0, 0, 0), (5, 5, 5)])
@pytest.mark.usefixtures("way")
def test_products_of_the_valid_frames_and_their_gradients(lengths):
    generator = np.random.default_rng(0)
    clean, by_y = generator.normal(size=(3, 5, 4)), generator.normal(size=(3, 5, 6))
    kernel = generator.normal(size=(4, 6))
    x = clean.copy()
    for b, length in enumerate(lengths):
        clean[b, length:], x[b, length:] = 0, np.nan

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4]), tf.TensorSpec([4, 6])])
    def differentiate(x, kernel):
        with tf.GradientTape() as tape:
            tape.watch((x, kernel))
            y = projection(x, tf.constant(lengths), kernel)
        assert y.shape.as_list() == [None, None, 6]
        return y, *tape.gradient(y, (x, kernel), tf.constant(by_y, tf.float32))

    y, by_x, by_kernel = differentiate(x.astype(np.float32), kernel.astype(np.float32))
    np.testing.assert_allclose(y, clean @ kernel, atol=1e-5)
    np.testing.assert_allclose(
        by_x, (clean != 0).any(2, keepdims=True) * (by_y @ kernel.T), atol=1e-5
    )
    np.testing.assert_allclose(by_kernel, np.einsum("btd,btn->dn", clean, by_y), atol=1e-4)
