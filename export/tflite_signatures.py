"""The signatures of LiteRT files: the names, shapes and types that clients rely on.

All are for one stream or utterance, as phones have them. Make them within
`native.portable(lite=True)`, from models that no graph was made of before.
"""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from ds2_tf import model as model_lib
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.streaming import StreamingModel

STREAM_STEP = "stream_step"
STREAM_FINISH = "stream_finish"
TRANSCRIBE = "transcribe"
STATE = "state_"

Signature: TypeAlias = Callable[..., dict[str, tf.Tensor]]


def start(model: StreamingModel) -> dict[str, tf.Tensor]:
    """Returns the state of a new stream: what `stream_step` takes, by name."""
    return {STATE + name: tensor for name, tensor in model.start(1).items()}


def stream(model: StreamingModel, chunk_samples: int) -> dict[str, Signature]:
    """Returns the functions that take a stream chunk by chunk.

    stream_step takes
      samples: [1, chunk_samples] float32 in [-1, 1], at the model's sample rate;
      state_*: from `start` or the last step;
    and returns
      log_probabilities: [1, T', V] float32 of the frames that the look-ahead allows, the blank at
        0; zero past their number, which varies at the stream's start and for odd chunks;
      lengths: [1] int32, their number;
      state_*.

    stream_finish takes what is left, and returns the frames that waited for more:
      samples: [1, chunk_samples] float32; what lies past their number is ignored;
      sample_lengths: [1] int32, their number, from 0 to chunk_samples;
      state_*.
    """
    names = [name.removeprefix(STATE) for name in start(model)]

    def step(samples: tf.Tensor, **state: tf.Tensor) -> dict[str, tf.Tensor]:
        log_probs, lengths, new = model.advance(
            samples, tf.constant([chunk_samples]), {name: state[STATE + name] for name in names}
        )
        new = {STATE + name: tensor for name, tensor in new.items()}
        return {"log_probabilities": log_probs, "lengths": lengths, **new}

    def finish(
        samples: tf.Tensor, sample_lengths: tf.Tensor, **state: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        log_probs, lengths, _ = model.advance(
            samples,
            sample_lengths,
            {name: state[STATE + name] for name in names},
            final=tf.constant([True]),
        )
        return {"log_probabilities": log_probs, "lengths": lengths}

    samples = tf.TensorSpec([1, chunk_samples], tf.float32, "samples")
    state = {
        name: tf.TensorSpec(tensor.shape, tensor.dtype, name)
        for name, tensor in start(model).items()
    }
    sample_lengths = tf.TensorSpec([1], tf.int32, "sample_lengths")
    return {
        STREAM_STEP: tf.function(step).get_concrete_function(samples, **state),
        STREAM_FINISH: tf.function(finish).get_concrete_function(samples, sample_lengths, **state),
    }


def whole(model: AcousticModel) -> dict[str, Signature]:
    """Returns the function that takes an utterance of any length.

    transcribe takes
      waveform: [1, S] float32 in [-1, 1], any S >= 1;
    and returns
      log_probabilities: [1, T', V] float32, the blank at 0;
      lengths: [1] int32: T', or 0 for what is shorter than a window, whose one frame is zero.
    """
    window = model.feature_config.window

    def transcribe(waveform: tf.Tensor) -> dict[str, tf.Tensor]:
        num_samples = tf.shape(waveform)[1]
        waveform = tf.pad(waveform, [[0, 0], [0, tf.maximum(0, window - num_samples)]])
        waveform.set_shape([1, None])
        spectrograms, lengths = model.frontend(waveform, num_samples[tf.newaxis])
        outputs = model.network(
            {"features": spectrograms, "feature_lengths": lengths}, training=False
        )
        lengths = outputs["logit_lengths"]
        log_probs = model_lib.masked_log_probabilities(outputs["logits"], lengths)
        return {"log_probabilities": log_probs, "lengths": lengths}

    waveform = tf.TensorSpec([1, None], tf.float32, "waveform")
    return {TRANSCRIBE: tf.function(transcribe).get_concrete_function(waveform)}
