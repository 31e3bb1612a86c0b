import itertools

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import alphabet
from ds2_tf.decoding import greedy

_ABC = alphabet.Alphabet((" ", "a", "b", "ä"))


def _collapse(path):
    """Merges repeats, then drops blanks: the definition of CTC's mapping."""
    labels = [(label, len(list(run))) for label, run in itertools.groupby(path)]
    first_frames = np.cumsum([0] + [count for _, count in labels])
    return [
        (label, int(first), int(first) + count)
        for (label, count), first in zip(labels, first_frames, strict=False)
        if label != alphabet.BLANK
    ]


def _peaked(paths, num_labels=3, seed=0):
    """Log-probabilities [B,T,V] whose best labels are `paths`."""
    logits = np.random.default_rng(seed).uniform(0, 1, (*np.shape(paths), num_labels))
    np.put_along_axis(logits, np.asarray(paths)[..., np.newaxis], 2.0, axis=-1)
    return tf.nn.log_softmax(logits.astype(np.float32))


def test_every_path_of_four_frames_and_three_labels_collapses_as_defined():
    paths = np.array(list(itertools.product(range(3), repeat=4)))
    lengths = np.full(len(paths), 4, np.int32)
    labels, frames = greedy.greedy_labels(_peaked(paths), lengths)
    for path, row_labels, row_frames in zip(paths, labels, frames, strict=True):
        expected = _collapse(path)
        assert row_labels.numpy().tolist() == [label for label, _, _ in expected]
        assert row_frames.numpy().tolist() == [first for _, first, _ in expected]


def test_runs_tell_the_end_and_the_peak_of_each_symbol():
    random = np.random.default_rng(1)
    log_probs = tf.nn.log_softmax(random.normal(size=(20, 30, 4)).astype(np.float32)).numpy()
    lengths = random.integers(0, 31, 20).astype(np.int32)
    runs = greedy.greedy_runs(log_probs, lengths)
    for b, length in enumerate(lengths):
        expected = _collapse(log_probs[b, :length].argmax(-1))
        assert runs.labels[b].numpy().tolist() == [label for label, _, _ in expected]
        assert runs.first_frames[b].numpy().tolist() == [first for _, first, _ in expected]
        assert runs.end_frames[b].numpy().tolist() == [end for _, _, end in expected]
        peaks = [log_probs[b, first:end, label].max() for label, first, end in expected]
        np.testing.assert_array_equal(runs.log_probabilities[b], np.float32(peaks))


def test_steps_emit_the_labels_of_the_whole():
    """Each row is cut somewhere else, and every label follows every other across a cut."""
    paths = np.array(list(itertools.product(range(3), repeat=5)))
    random = np.random.default_rng(5)
    taken = np.zeros(len(paths), int)
    last_label = tf.zeros([len(paths)], tf.int32)
    found = [[] for _ in paths]
    for step in range(6):
        lengths = random.integers(0, 3, len(paths)) if step < 5 else 5 - taken
        lengths = np.minimum(lengths, 5 - taken).astype(np.int32)
        padded = np.pad(paths, ((0, 0), (0, 5)))
        rows = [path[t : t + 5] for path, t in zip(padded, taken, strict=True)]
        log_probs = _peaked(rows).numpy()
        log_probs[np.arange(5) >= lengths[:, np.newaxis]] = np.nan
        labels, last_label = greedy.greedy_step(log_probs, lengths, last_label)
        found = [old + new for old, new in zip(found, labels.to_list(), strict=True)]
        taken += lengths
    assert found == [[label for label, _, _ in _collapse(path)] for path in paths]
    assert last_label.numpy().tolist() == paths[:, -1].tolist()


def test_a_step_without_frames_changes_nothing():
    labels, last_label = greedy.greedy_step(tf.zeros([2, 0, 3]), np.int32([0, 0]), np.int32([2, 0]))
    assert labels.to_list() == [[], []]
    assert last_label.numpy().tolist() == [2, 0]


@pytest.mark.parametrize("padding", [np.nan, np.inf, 0.0])
def test_frames_past_the_length_are_ignored_whatever_they_hold(padding):
    log_probs = _peaked([[1, 1, 0, 2, 2, 2]]).numpy()
    log_probs[0, 4:] = padding
    log_probs[0, 5, 1] = 9.0
    runs = greedy.greedy_runs(log_probs, np.int32([4]))
    assert runs.labels.to_list() == [[1, 2]]
    assert runs.end_frames.to_list() == [[2, 4]]
    assert np.isfinite(runs.log_probabilities.flat_values).all()


def test_rows_are_independent_of_their_batch():
    random = np.random.default_rng(2)
    log_probs = random.normal(size=(5, 12, 4)).astype(np.float32)
    lengths = np.int32([12, 0, 7, 1, 12])
    together = greedy.greedy_runs(log_probs, lengths)
    for b, length in enumerate(lengths):
        alone = greedy.greedy_runs(log_probs[b : b + 1, :length], lengths[b : b + 1])
        for of_row, of_batch in zip(alone, together, strict=True):
            assert of_row.to_list()[0] == of_batch.to_list()[b]


@pytest.mark.parametrize(("num_rows", "num_frames"), [(0, 5), (2, 0), (0, 0)])
def test_no_utterances_and_no_frames(num_rows, num_frames):
    log_probs = tf.zeros([num_rows, num_frames, 3])
    runs = greedy.greedy_runs(log_probs, tf.zeros([num_rows], tf.int32))
    assert all(part.to_list() == [[]] * num_rows for part in runs)
    text = greedy.greedy_text(runs.labels, _ABC)
    assert text.numpy().tolist() == [b""] * num_rows


def test_equal_values_give_the_lowest_label():
    labels, _ = greedy.greedy_labels(tf.zeros([1, 3, 4]), np.int32([3]))
    assert labels.to_list() == [[]]
    labels, _ = greedy.greedy_labels(tf.constant([[[-9.0, -1.0, -1.0]]]), np.int32([1]))
    assert labels.to_list() == [[1]]


def test_text_is_utf8_with_single_spaces_between_words():
    labels = tf.ragged.constant([[1, 2, 1, 1, 4, 3, 1], [], [1]], dtype=tf.int32)
    text = greedy.greedy_text(labels, _ABC).numpy().tolist()
    assert [row.decode() for row in text] == ["a äb", "", ""]


def test_text_of_bigrams():
    pairs = alphabet.from_transcripts(["die maße", "à ab"], kind="bigram")
    texts = ["die maße", "ab à", "ßßdi", ""]
    labels = tf.ragged.constant([pairs.encode(text) for text in texts], dtype=tf.int32)
    assert labels.row_lengths().numpy().tolist() == [5, 3, 3, 0]
    text = greedy.greedy_text(labels, pairs).numpy().tolist()
    assert [row.decode() for row in text] == texts


def test_inside_a_saved_graph_of_unknown_shape(tmp_path):
    class Decoder(tf.Module):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None, 5], tf.float32),
                tf.TensorSpec([None], tf.int32),
            ]
        )
        def __call__(self, log_probs, lengths):
            labels, _ = greedy.greedy_labels(log_probs, lengths)
            return greedy.greedy_text(labels, _ABC)

    tf.saved_model.save(Decoder(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    log_probs = _peaked([[2, 2, 0, 2, 1], [3, 3, 3, 3, 4]], num_labels=5)
    assert loaded(log_probs, tf.constant([5, 4])).numpy().tolist() == [b"aa", b"b"]
    assert loaded(log_probs[:0], tf.zeros([0], tf.int32)).numpy().tolist() == []
