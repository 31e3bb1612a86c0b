"""The signatures of exported models: the names, shapes and types that clients rely on."""

import tensorflow as tf

from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.decoding import greedy

TRANSCRIBE = "transcribe"


def transcribe(model: AcousticModel) -> tf.types.experimental.PolymorphicFunction:
    """Returns the function waveforms -> log-probabilities and text, of portable operations only.

    Its arguments:
      waveform: [B, S] float32 in [-1, 1], at the model's sample rate. What lies past an utterance's
        length is ignored, whatever it holds.
      waveform_lengths: [B] int32, samples of each utterance, from 0 to S.

    It returns a dictionary:
      log_probabilities: [B, T', V] float32, zero past each length; the blank is label 0.
      lengths: [B] int32, output frames of each utterance; 0 when it is shorter than a window.
      text: [B] string, UTF-8, by greedy decoding.

    When run it raises InvalidArgumentError for lengths that don't fit the waveforms. A row's result
    doesn't depend on the other rows; B = 0 and S = 0 are legal.
    """

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.float32, "waveform"),
            tf.TensorSpec([None], tf.int32, "waveform_lengths"),
        ]
    )
    def transcribe(waveform: tf.Tensor, waveform_lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        num_rows, num_samples = tf.shape(waveform)[0], tf.shape(waveform)[1]
        with tf.control_dependencies(_checks(waveform_lengths, num_rows, num_samples)):
            waveform = tf.identity(waveform)
        log_probabilities, lengths = model.log_probabilities(waveform, waveform_lengths)
        labels, _ = greedy.greedy_labels(log_probabilities, lengths)
        return {
            "log_probabilities": log_probabilities,
            "lengths": lengths,
            "text": greedy.greedy_text(labels, model.alphabet),
        }

    return transcribe


def _checks(lengths: tf.Tensor, num_rows: tf.Tensor, num_samples: tf.Tensor) -> list[tf.Operation]:
    return [
        tf.debugging.assert_equal(
            tf.shape(lengths)[0],
            num_rows,
            "waveform_lengths must have one entry for each row of waveform",
        ),
        tf.debugging.assert_non_negative(lengths, message="waveform_lengths must be >= 0"),
        tf.debugging.assert_less_equal(
            lengths,
            num_samples,
            "waveform_lengths must not exceed the samples of a row of waveform",
        ),
    ]
