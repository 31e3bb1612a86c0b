"""One step of training in every way in which it can be run."""

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import memory, optimizer
from ds2_tf.memory import Execution
from ds2_tf.model import DeepSpeech2, ModelConfig
from ds2_tf.train_step import TrainStep

BINS, LABELS = 20, 6
SMALL = {
    "conv_channels": (3,),
    "conv_kernels": ((5, 7),),
    "conv_strides": ((2, 2),),
    "rnn_layers": 2,
    "rnn_units": 8,
}


def make_network(precision="float32", **settings):
    tf.keras.utils.set_random_seed(1)
    return DeepSpeech2(ModelConfig(**{**SMALL, **settings}), BINS, LABELS, precision)


def make_batch(lengths=(40, 31, 22, 7)):
    generator = np.random.default_rng(0)
    return {
        "utterance_index": np.arange(len(lengths), dtype=np.int32),
        "features": generator.normal(size=(len(lengths), max(lengths), BINS)).astype(np.float32),
        "feature_lengths": np.array(lengths, np.int32),
        "labels": np.array([[1, 2, 3]] * len(lengths), np.int32),
        "label_lengths": np.array([3, 2, 1, 0][: len(lengths)], np.int32),
    }


def make_step(precision="float32", **settings):
    network = make_network(precision, **settings)
    update = optimizer.make(optimizer.OptimizerConfig("sgd", momentum=0.9))
    update.build(network.trainable_variables)
    update.learning_rate.assign(0.01)
    return network, TrainStep(tf.distribute.get_strategy(), network, update, clip_norm=5.0)


def step_with(execution, **settings):
    """Returns loss and norm of one step, and all variables after it."""
    network, train_step = make_step(**settings)
    found = train_step.compute(make_batch(), execution)
    train_step.apply(found.gradient_norm)
    values = {v.path: v.numpy() for v in network.weights if v.dtype == "float32"}
    return found, values


@pytest.mark.parametrize(
    "settings",
    [
        {"cell": "rnn"},
        {"cell": "gru", "dropout": 0.3},
        {"cell": "lstm", "bidirectional": False, "lookahead": 2, "dense_layers": 1},
        {"cell": "gru", "batch_norm": False},
    ],
)
def test_recomputed_activations_give_the_same_update(settings):
    kept, expected = step_with(memory.AS_IT_IS, **settings)
    recomputed, values = step_with(Execution(recompute=True), **settings)
    assert recomputed.loss == pytest.approx(kept.loss, rel=1e-6)
    assert recomputed.gradient_norm == pytest.approx(kept.gradient_norm, rel=1e-5)
    assert kept.gradient_norm > 5
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_running_averages_move_once():
    _, values = step_with(Execution(recompute=True))
    network = make_network()
    _, expected = step_with(memory.AS_IT_IS)
    moved = [name for name in values if name.endswith("moving_mean")]
    assert len(moved) == 3
    for name in moved:
        np.testing.assert_allclose(values[name], expected[name], rtol=1e-5, err_msg=name)
        assert np.abs(values[name]).max() > 0
    assert all(not np.asarray(v).any() for v in network.weights if v.path.endswith("moving_mean"))


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_parts_give_the_same_update_but_for_their_own_statistics(parts):
    whole, expected = step_with(memory.AS_IT_IS, batch_norm=False)
    cut, values = step_with(Execution(True, parts), batch_norm=False)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_averages_of_parts_move_by_the_statistics_of_all_rows():
    """The first layer's statistics depend on no others: there parts equal the whole."""
    _, expected = step_with(memory.AS_IT_IS)
    _, values = step_with(Execution(True, 3))
    for name in ("conv_0/bn/moving_mean", "conv_0/bn/moving_variance"):
        np.testing.assert_allclose(values[name], expected[name], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(("precision", "scale"), [("bfloat16", 1.0), ("float16", 64.0)])
def test_half_precision_is_near_float32(cell, precision, scale):
    batch = make_batch()
    _, exact = make_step(cell=cell)
    _, rounded = make_step(precision, cell=cell)
    expected, found = exact.compute(batch), rounded.compute(batch, loss_scale=scale)
    assert found.loss != expected.loss
    assert found.loss == pytest.approx(expected.loss, rel=0.02)
    assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=0.05)


def test_too_large_a_loss_scale_shows_in_the_norm_and_not_in_the_loss():
    _, step = make_step("float16")
    found = step.compute(make_batch(), loss_scale=2.0**30)
    assert np.isfinite(found.loss)
    assert not np.isfinite(found.gradient_norm)


def test_nothing_changes_before_apply():
    network, step = make_step()
    before = [weight.numpy() for weight in network.weights]
    found = step.compute(make_batch())
    for weight, value in zip(network.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    step.apply(found.gradient_norm)
    changed = [(w.numpy() != v).any() for w, v in zip(network.weights, before, strict=True)]
    assert all(changed)


def test_the_loss_is_the_mean_over_the_utterances_and_long_gradients_are_cut():
    network, step = make_step()
    batch = make_batch()
    empty = {
        "utterance_index": np.array([-1], np.int32),
        "features": np.zeros((1, 40, BINS), np.float32),
        "feature_lengths": np.zeros(1, np.int32),
        "labels": np.zeros((1, 3), np.int32),
        "label_lengths": np.zeros(1, np.int32),
    }
    filled = {key: np.concatenate([batch[key], empty[key]]) for key in batch}
    found, same = step.compute(batch), step.compute(filled)
    assert same.loss == pytest.approx(found.loss, rel=1e-6)
    assert same.gradient_norm == pytest.approx(found.gradient_norm, rel=1e-5)
    assert found.gradient_norm > 5
    before = [variable.numpy() for variable in network.trainable_variables]
    step.apply(found.gradient_norm)
    moved = [
        variable.numpy() - old
        for variable, old in zip(network.trainable_variables, before, strict=True)
    ]
    length = np.sqrt(sum(np.sum(np.square(m, dtype=np.float64)) for m in moved))
    assert length == pytest.approx(0.01 * (1 + 0.9) * 5, rel=1e-3)  # the first Nesterov step


def test_shapes_are_traced_once():
    _, step = make_step()
    counts = set()
    for lengths in ((40, 31, 22, 7), (12, 5), (33, 32, 31, 30, 9, 3)):
        batch = make_batch(lengths)
        batch["label_lengths"] = np.resize(batch["label_lengths"], len(lengths))
        step.apply(step.compute(batch).gradient_norm)
        counts.add(step.num_traces)
    assert len(counts) == 1
