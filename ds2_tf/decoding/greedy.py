"""Greedy decoding: the most probable symbol of each frame, repeats merged, blanks removed.

Only TensorFlow operations that run everywhere, so that exported graphs contain the same decoder. A
row's result depends on its own valid frames alone.
"""

from typing import NamedTuple

import tensorflow as tf

from ds2_tf.alphabet import BLANK, Alphabet


class Runs(NamedTuple):
    """The emitted symbols of each utterance. A run is a stretch of frames with the same best label.

    All four are ragged [B,(U)]: the label (int32), the run's first frame and the frame after its
    last (int32), and the largest log-probability of the label inside the run (float32).
    """

    labels: tf.RaggedTensor
    first_frames: tf.RaggedTensor
    end_frames: tf.RaggedTensor
    log_probabilities: tf.RaggedTensor


def greedy_runs(log_probs: tf.Tensor, lengths: tf.Tensor) -> Runs:
    """Returns the runs of non-blank labels of each utterance.

    Args:
      log_probs: [B,T',V] float32, blank at 0. Of equal values the lowest label wins. Frames past
        the length may hold anything, NaN included.
      lengths: [B] int32, valid frames. T' = 0 and B = 0 are legal.
    """
    best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
    num_rows, num_frames = tf.shape(best)[0], tf.shape(best)[1]
    frame = tf.broadcast_to(tf.range(num_frames), [num_rows, num_frames])
    valid = frame < lengths[:, tf.newaxis]
    best = tf.where(valid, best, BLANK)
    at_first = best != tf.pad(best[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    # Runs are numbered through the whole batch: frame 0 of a row always begins one.
    run = tf.cumsum(tf.cast(tf.reshape(at_first, [-1]), tf.int32)) - 1
    end_frames = tf.math.segment_max(tf.reshape(frame, [-1]), run) + 1
    peaks = tf.math.segment_max(tf.reshape(tf.reduce_max(log_probs, axis=-1), [-1]), run)
    emits = at_first & (best != BLANK)
    emitting_runs = tf.ragged.boolean_mask(tf.reshape(run, [num_rows, num_frames]), emits)
    return Runs(
        labels=tf.ragged.boolean_mask(best, emits),
        first_frames=tf.ragged.boolean_mask(frame, emits),
        end_frames=emitting_runs.with_flat_values(tf.gather(end_frames, emitting_runs.flat_values)),
        log_probabilities=emitting_runs.with_flat_values(
            tf.gather(peaks, emitting_runs.flat_values)
        ),
    )


def greedy_labels(
    log_probs: tf.Tensor, lengths: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the labels of each utterance and the first frame of each, both [B,(U)] int32.

    The arguments are those of `greedy_runs`.
    """
    runs = greedy_runs(log_probs, lengths)
    return runs.labels, runs.first_frames


def greedy_step(
    log_probs: tf.Tensor, lengths: tf.Tensor, last_label: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Returns the labels that begin in the next frames of B streams, and the last label of each.

    The labels of all steps together are those of `greedy_labels` for the whole streams.

    Args:
      log_probs: [B,T',V] float32, as for `greedy_runs`.
      lengths: [B] int32.
      last_label: [B] int32: the best label of each stream's last frame, at its start the blank.

    Returns:
      labels [B,(U)] int32, and the new last labels [B] int32.
    """
    best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
    history = tf.concat([last_label[:, tf.newaxis], best], axis=1)
    valid = tf.sequence_mask(lengths, tf.shape(best)[1])
    emits = valid & (best != history[:, :-1]) & (best != BLANK)
    return tf.ragged.boolean_mask(best, emits), tf.gather(history, lengths, batch_dims=1)


def greedy_text(labels: tf.RaggedTensor, alphabet: Alphabet) -> tf.Tensor:
    """Returns the text of each row of labels: [B] string, UTF-8.

    Spaces at the ends are removed and several in a row become one, as everywhere in the project.

    Args:
      labels: [B,(U)] int32 from `greedy_labels`, no blanks.
      alphabet: gives the symbols.
    """
    text = joined_symbols(labels, alphabet)
    return tf.strings.strip(tf.strings.regex_replace(text, " +", " "))


def joined_symbols(labels: tf.RaggedTensor, alphabet: Alphabet) -> tf.Tensor:
    """Returns the symbols of each row of labels with all of their spaces: [B] string, UTF-8.

    The arguments are those of `greedy_text`.
    """
    symbols = tf.constant(["", *alphabet.symbols])
    pieces = labels.with_flat_values(tf.gather(symbols, labels.flat_values))
    return tf.strings.reduce_join(pieces, axis=-1)
