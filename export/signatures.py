"""The signatures of exported models: the names, shapes and types that clients rely on.

Every argument and result has one row for each utterance or stream, so that servers can join the
requests of several clients and divide the results. A row's result doesn't depend on the others.
"""

from typing import TypeAlias

import tensorflow as tf

from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.alphabet import BLANK
from ds2_tf.decoding import greedy
from ds2_tf.layers.sequence_layer import State
from ds2_tf.streaming import StreamingModel

TRANSCRIBE = "transcribe"
DESCRIBE = "describe"
STREAM_START = "stream_start"
STREAM_STEP = "stream_step"

Function: TypeAlias = tf.types.experimental.PolymorphicFunction

_WAVEFORM = tf.TensorSpec([None, None], tf.float32, "waveform")
_WAVEFORM_LENGTHS = tf.TensorSpec([None], tf.int32, "waveform_lengths")
_LAST_LABEL = "last_label"


def functions(model: AcousticModel, config: str, alphabet: str) -> dict[str, Function]:
    """Returns all signatures of a model by name; those for streams if it can follow one.

    Args:
      model: the trained model.
      config: config.json, as text.
      alphabet: alphabet.json, as text.
    """
    signatures = {TRANSCRIBE: transcribe(model), DESCRIBE: describe(config, alphabet)}
    if can_stream(model):
        streaming_model = StreamingModel(model)
        signatures[STREAM_START] = stream_start(streaming_model)
        signatures[STREAM_STEP] = stream_step(streaming_model)
    return signatures


def can_stream(model: AcousticModel) -> bool:
    """Returns whether the model can follow a stream: whether it is forward-only."""
    return model.network.lookahead_frames is not None


def transcribe(model: AcousticModel) -> Function:
    """Returns the function waveforms -> log-probabilities and text.

    Its arguments:
      waveform: [B, S] float32 in [-1, 1], at the model's sample rate. What lies past an utterance's
        length is ignored, whatever it holds.
      waveform_lengths: [B] int32, samples of each utterance, from 0 to S.

    It returns a dictionary:
      log_probabilities: [B, T', V] float32, zero past each length; the blank is label 0.
      lengths: [B] int32, output frames of each utterance; 0 when it is shorter than a window.
      text: [B] string, UTF-8, by greedy decoding.

    When run it raises InvalidArgumentError for lengths that don't fit the waveforms. B = 0 and
    S = 0 are legal.
    """

    @tf.function(input_signature=[_WAVEFORM, _WAVEFORM_LENGTHS])
    def transcribe(waveform: tf.Tensor, waveform_lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies(_checks(waveform, waveform_lengths)):
            waveform = tf.identity(waveform)
        log_probabilities, lengths = model.log_probabilities(waveform, waveform_lengths)
        labels, _ = greedy.greedy_labels(log_probabilities, lengths)
        return {
            "log_probabilities": log_probabilities,
            "lengths": lengths,
            "text": greedy.greedy_text(labels, model.alphabet),
        }

    return transcribe


def describe(config: str, alphabet: str) -> Function:
    """Returns a function that tells a client on another machine what it must know of the model.

    Its argument:
      request: [B] int32; what it holds is ignored.

    It returns a dictionary:
      config: [B] string, config.json; the sample rate is its `features.sample_rate_hz`.
      alphabet: [B] string, alphabet.json; label l is its symbol l - 1, label 0 the blank.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "request")])
    def describe(request: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "config": tf.fill(tf.shape(request), config),
            "alphabet": tf.fill(tf.shape(request), alphabet),
        }

    return describe


def stream_start(model: StreamingModel) -> Function:
    """Returns the function that gives streams their first state.

    Its argument:
      streams: [B] int32, an entry for each stream that begins; what it holds is ignored. (A number
        of streams would do, but servers only join requests whose arguments have rows.)

    It returns a dictionary of the `state_*` that `stream_step` takes, [B, ...] each.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "streams")])
    def stream_start(streams: tf.Tensor) -> dict[str, tf.Tensor]:
        return _named(_start(model, tf.shape(streams)[0]))

    return stream_start


def stream_step(model: StreamingModel) -> Function:
    """Returns the function samples and state -> log-probabilities, text and state.

    Rows may be streams in different phases, bring different amounts and end at different times. The
    frames of all steps of a stream are those of `transcribe` with the causal form of the features.

    Its arguments:
      waveform: [B, S] float32 in [-1, 1], at the model's sample rate: the next samples of each
        stream. What lies past their number is ignored, whatever it holds.
      waveform_lengths: [B] int32, how many these are, from 0 to S.
      final: [B] bool, which streams end with them.
      state_*: [B, ...], from `stream_start` or the stream's last step.

    It returns a dictionary:
      log_probabilities: [B, T', V] float32: the frames that the samples allow, T' of the stream
        with the most; zero past each length; the blank is label 0.
      lengths: [B] int32, output frames of each stream.
      text: [B] string, UTF-8: the symbols that begin in these frames, by greedy decoding. All of a
        stream's texts, joined, are its text; spaces are left as they come.
      state_*: the new states; where a stream ended, those of a new one.

    When run it raises InvalidArgumentError for arguments that don't fit each other. S = 0 is legal,
    B = 0 is not.
    """
    states = {
        name: tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype, name)
        for name, tensor in _named(_start(model, 1)).items()
    }
    final_spec = tf.TensorSpec([None], tf.bool, "final")

    @tf.function(input_signature=[_WAVEFORM, _WAVEFORM_LENGTHS, final_spec, states])
    def stream_step(
        waveform: tf.Tensor,
        waveform_lengths: tf.Tensor,
        final: tf.Tensor,
        states: dict[str, tf.Tensor],
    ) -> dict[str, tf.Tensor]:
        checks = _checks(waveform, waveform_lengths, {"final": final, **states})
        with tf.control_dependencies(checks):
            waveform = tf.identity(waveform)
        state = _start(model, tf.shape(waveform)[0])
        state |= {name: states[f"state_{name}"] for name in state if f"state_{name}" in states}
        last_label = state.pop(_LAST_LABEL)
        log_probabilities, lengths, state = model.step(waveform, waveform_lengths, final, state)
        labels, last_label = greedy.greedy_step(log_probabilities, lengths, last_label)
        state[_LAST_LABEL] = tf.where(final, BLANK, last_label)
        num_frames = tf.maximum(0, tf.reduce_max(lengths))
        return {
            "log_probabilities": log_probabilities[:, :num_frames],
            "lengths": lengths,
            "text": greedy.joined_symbols(labels, model.model.alphabet),
            **_named(state),
        }

    return stream_step


def _start(model: StreamingModel, batch_size: int | tf.Tensor) -> State:
    """Returns the first state of the model and of the greedy decoder."""
    return {**model.start(batch_size), _LAST_LABEL: tf.fill([batch_size], BLANK)}


def _named(state: State) -> dict[str, tf.Tensor]:
    """Returns the state's tensors by their names in signatures.

    Those without elements, which some models have, are left out: JSON can't write their shapes.
    """
    return {f"state_{name}": tensor for name, tensor in state.items() if 0 not in tensor.shape[1:]}


def _checks(
    waveform: tf.Tensor, lengths: tf.Tensor, others: dict[str, tf.Tensor] | None = None
) -> list[tf.Operation]:
    """Returns what fails when the arguments' rows or the lengths don't fit the waveform."""
    num_rows, num_samples = tf.shape(waveform)[0], tf.shape(waveform)[1]
    same_rows = [
        tf.debugging.assert_equal(
            tf.shape(tensor)[0], num_rows, f"{name} must have one entry for each row of waveform"
        )
        for name, tensor in {"waveform_lengths": lengths, **(others or {})}.items()
    ]
    return [
        *same_rows,
        tf.debugging.assert_non_negative(lengths, message="waveform_lengths must be >= 0"),
        tf.debugging.assert_less_equal(
            lengths,
            num_samples,
            "waveform_lengths must not exceed the samples of a row of waveform",
        ),
    ]
