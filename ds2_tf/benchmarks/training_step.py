"""What a training step costs, and which part of it how much."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ds2_tf import config, features, manifest, model, optimizer
from ds2_tf.alphabet import BLANK, Alphabet
from ds2_tf.benchmarks import input_costs, measurement
from ds2_tf.benchmarks.measurement import Row, Times
from ds2_tf.layers.batch_norm import collected_statistics
from ds2_tf.layers.block import Block
from ds2_tf.layers.conv import SequenceConv2D
from ds2_tf.layers.recurrent import Recurrent
from ds2_tf.normalization import Normalization
from ds2_tf.ops.ctc import ctc_loss
from ds2_tf.train_step import TrainStep

FEATURES, CTC_LOSS, OPTIMIZER = "features", "CTC loss", "optimiser"
CONVOLUTION, RECURRENT, OTHER = "convolution", "recurrent layers", "other layers"
PARTS = (FEATURES, CONVOLUTION, RECURRENT, OTHER, CTC_LOSS, OPTIMIZER)
REST = "rest"

Batch = dict[str, tf.Tensor]

_LABELS_PER_SECOND = 14  # Read English; see `data_rules.MAX_LETTERS_PER_SECOND`.
_GRADIENT_SCALE = 1e-3  # Keeps the gradient of a long recurrence far from infinity.


@dataclasses.dataclass(frozen=True)
class StepCosts:
    """What training steps in one precision cost on average.

    Attributes:
      precision: of the activations.
      audio_seconds: of a batch, without padding.
      whole: features, gradients, clipping and the update together.
      parts: each of `PARTS` alone, forward and backward; `REST` is what they leave unexplained
        of the whole, and below 0 when they take longer alone than together.
      first_traces: traces of the step's functions after all batches were seen once.
      traces: the same at the end; more than `first_traces` means that something is retraced.
    """

    precision: str
    audio_seconds: float
    whole: Times
    parts: dict[str, Times]
    first_traces: int
    traces: int

    @property
    def shares(self) -> dict[str, float]:
        """The part of the whole that each part takes; they add up to 1.

        Of CPU seconds, which a shared machine disturbs least; with a GPU, of the time by the clock.
        """
        clock = "wall_seconds" if tf.config.list_physical_devices("GPU") else "cpu_seconds"
        whole = getattr(self.whole, clock)
        return {name: getattr(times, clock) / whole for name, times in self.parts.items()}


def synthetic_batches(
    run: config.RunConfig, alphabet: Alphabet, seconds: Iterable[float]
) -> list[Batch]:
    """Returns a batch of noise and random labels for each length of audio."""
    generator = np.random.default_rng(run.training.seed)
    batch_size = run.batches.batch_size
    batches = []
    for each in seconds:
        num_frames = run.features.num_frames(round(each * run.features.sample_rate_hz))
        most = run.model.num_output_frames(num_frames) // 2  # fits though all labels be the same
        num_labels = min(round(_LABELS_PER_SECOND * each), most)
        shape = (batch_size, num_frames, run.features.num_bins)
        labels = generator.integers(BLANK + 1, alphabet.num_labels, (batch_size, num_labels))
        batches.append(
            {
                "utterance_index": tf.range(batch_size),
                "features": tf.constant(generator.standard_normal(shape), tf.float32),
                "feature_lengths": tf.fill([batch_size], num_frames),
                "labels": tf.constant(labels, tf.int32),
                "label_lengths": tf.fill([batch_size], num_labels),
            }
        )
    return batches


def recorded_batches(
    run: config.RunConfig,
    alphabet: Alphabet,
    utterances: Sequence[manifest.Utterance],
    num_batches: int,
) -> list[Batch]:
    """Returns some batches of recordings, from the shortest to the longest of a sorted epoch."""
    sorted_by_length = dataclasses.replace(run.batches, sorted_epochs=-1)
    pipeline = input_costs.pipeline(
        dataclasses.replace(run, batches=sorted_by_length), alphabet, utterances, augmented=False
    )
    last = pipeline.epoch(0).num_batches - 1
    chosen = sorted(set(np.linspace(0, last, num_batches).round().astype(int).tolist()))
    return [next(iter(pipeline.epoch(0, number).dataset)) for number in chosen]


def measure(
    run: config.RunConfig,
    alphabet: Alphabet,
    batches: Sequence[Batch],
    precisions: Sequence[str],
    repetitions: int,
) -> list[StepCosts]:
    """Returns the costs of training steps on one device in each precision, measured in turn.

    All layers are measured forward and backward on the activations that the batches give them.
    """
    keras.utils.set_random_seed(run.training.seed)
    trainees = {precision: _Trainee(run, alphabet, precision) for precision in precisions}
    for trainee in trainees.values():
        for batch in batches:
            trainee.step(batch)
    first_traces = {name: trainee.num_traces for name, trainee in trainees.items()}
    totals: dict[tuple[str, str], Times] = {}
    for batch in batches:
        actions = {
            (precision, part): action
            for precision, trainee in trainees.items()
            for part, action in trainee.actions(batch).items()
        }
        for name, times in measurement.in_turn(actions, repetitions).items():
            totals[name] = totals.get(name, Times()) + times
    num_frames = sum(int(tf.reduce_sum(batch["feature_lengths"])) for batch in batches)
    audio_seconds = num_frames * run.features.step / run.features.sample_rate_hz
    costs = []
    for precision, trainee in trainees.items():
        whole = totals[precision, "whole"] / len(batches)
        parts = {part: totals[precision, part] / len(batches) for part in PARTS}
        parts[REST] = whole - sum(parts.values(), Times())
        costs.append(
            StepCosts(
                precision,
                audio_seconds / len(batches),
                whole,
                parts,
                first_traces[precision],
                trainee.num_traces,
            )
        )
    return costs


class _Trainee:
    """A network in one precision, whole and in parts."""

    def __init__(self, run: config.RunConfig, alphabet: Alphabet, precision: str) -> None:
        self._run = run
        self._network = model.DeepSpeech2(
            run.model, run.features.num_bins, alphabet.num_labels, precision
        )
        update = optimizer.make(run.optimizer)  # Its learning rate is 0: the weights stay.
        update.build(self._network.trainable_variables)
        strategy = tf.distribute.get_strategy()
        self._train_step = TrainStep(strategy, self._network, update, run.optimizer.clip_norm)
        self._layers = [
            layer
            for layer in self._network.layers
            if not isinstance(layer, keras.layers.InputLayer)
        ]
        self._activations = keras.Model(
            self._network.input, [[layer.input, layer.output] for layer in self._layers]
        )
        self._runs = []
        below_has_weights = False
        for layer in self._layers:
            self._runs.append(_forward_and_backward(layer, below_has_weights))
            below_has_weights |= bool(layer.trainable_variables)
        self._features = tf.function(self._make_features, reduce_retracing=True)
        self._ctc = tf.function(_ctc_forward_and_backward, reduce_retracing=True)
        self._norm = tf.function(tf.linalg.global_norm)

    @property
    def num_traces(self) -> int:
        """How often functions of the training step were traced."""
        return self._train_step.num_traces

    def step(self, batch: Batch) -> None:
        """Makes a training step."""
        found = self._train_step.compute(batch)
        self._train_step.apply(found.gradient_norm)

    def actions(self, batch: Batch) -> dict[str, Callable[[], object]]:
        """Returns the whole step and each part of it, ready to be measured."""
        waveforms, lengths = self._waveforms(batch)
        network_inputs = {key: batch[key] for key in ("features", "feature_lengths")}
        with collected_statistics():
            activations = self._activations(network_inputs, training=True)
            outputs = self._network(network_inputs, training=True)
        layers: dict[str, list[Callable[[], object]]] = {CONVOLUTION: [], RECURRENT: [], OTHER: []}
        for layer, run, (x, y) in zip(self._layers, self._runs, activations, strict=True):
            by_output = _GRADIENT_SCALE * tf.ones_like(tf.nest.flatten(y)[0])
            layers[_kind(layer)].append(functools.partial(run, tf.nest.flatten(x), by_output))
        gradients = [tf.ones_like(v.value) for v in self._network.trainable_variables]
        ctc_inputs = (
            outputs["logits"],
            outputs["logit_lengths"],
            batch["labels"],
            batch["label_lengths"],
        )

        def whole() -> None:
            self._features(waveforms, lengths)
            self.step(batch)

        def optimize() -> None:
            self._train_step.apply(float(self._norm(gradients)))

        return {
            "whole": whole,
            FEATURES: lambda: self._features(waveforms, lengths),
            **{kind: functools.partial(_call_all, runs) for kind, runs in layers.items()},
            CTC_LOSS: lambda: self._ctc(*ctc_inputs),
            OPTIMIZER: optimize,
        }

    def _waveforms(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns noise [B, S] as long as the batch's utterances, and its lengths [B]."""
        feature_config = self._run.features
        lengths = (batch["feature_lengths"] - 1) * feature_config.step + feature_config.window
        return tf.random.normal([tf.shape(lengths)[0], tf.reduce_max(lengths)]), lengths

    def _make_features(self, waveforms: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        bins = np.ones(self._run.features.num_bins, np.float32)
        spectrograms, frame_lengths = features.log_spectrogram(
            self._run.features, waveforms, lengths
        )
        return Normalization(bins, bins)(spectrograms, frame_lengths)


def _kind(layer: keras.layers.Layer) -> str:
    """Returns the part of the step to which a layer belongs."""
    if isinstance(layer, Recurrent):
        return RECURRENT
    if isinstance(layer, Block) and isinstance(layer.layer, SequenceConv2D):
        return CONVOLUTION
    return OTHER


def _call_all(runs: Sequence[Callable[[], object]]) -> None:
    for run in runs:
        run()


def _forward_and_backward(layer: keras.layers.Layer, needs_input_gradient: bool) -> Any:
    """Returns a function of a layer's inputs and the gradient of its output."""
    alone = keras.Model(layer.input, layer.output)
    specs = [tf.TensorSpec(x.shape, x.dtype) for x in tf.nest.flatten([layer.input, layer.output])]
    num_inputs = len(tf.nest.flatten(layer.input))

    @tf.function(input_signature=[specs[:num_inputs], specs[num_inputs]])
    def run(inputs: list[tf.Tensor], by_output: tf.Tensor) -> list[tf.Tensor]:
        x = inputs[0]
        with collected_statistics(), tf.GradientTape() as tape:
            tape.watch(x)
            structured = tf.nest.pack_sequence_as(layer.input, inputs)
            y = tf.nest.flatten(alone(structured, training=True))[0]
        sources = [v.value for v in alone.trainable_variables]
        sources += [x] if needs_input_gradient else []
        return [y, *tape.gradient(y, sources, by_output)]

    return run


def _ctc_forward_and_backward(
    logits: tf.Tensor, logit_lengths: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor
) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.reduce_sum(ctc_loss(logits, logit_lengths, labels, label_lengths))
    return tape.gradient(loss, logits)


def rows(case: str, costs: Sequence[StepCosts]) -> list[Row]:
    """Returns the results; the first precision is the peer of the others."""
    found = []
    first = costs[0]
    for each in costs:
        name = f"{case} {each.precision}"
        values = {
            "steps a second": 1 / each.whole.wall_seconds,
            "audio seconds a second": each.audio_seconds / each.whole.wall_seconds,
            "CPU seconds a step": each.whole.cpu_seconds,
            **{f"share of {part}": share for part, share in each.shares.items()},
            "traces after all batches were seen once": each.first_traces,
            "traces at the end": each.traces,
        }
        found += [Row(name, metric, value) for metric, value in values.items()]
        if each is not first:
            for part in ("whole", *PARTS):
                ours, peer = _cpu_seconds(each, part), _cpu_seconds(first, part)
                metric = f"CPU seconds a step, {part}"
                found.append(Row(name, metric, ours, first.precision, peer, peer / ours))
    return found


def _cpu_seconds(costs: StepCosts, part: str) -> float:
    return (costs.whole if part == "whole" else costs.parts[part]).cpu_seconds


def table(costs: Sequence[StepCosts]) -> str:
    """Returns the results to read; the last columns compare with the first precision."""
    lines = []
    first = costs[0]
    for each in costs:
        seconds = each.whole.wall_seconds
        lines += [
            f"{each.precision}: {1 / seconds:.2f} steps/s, {each.audio_seconds / seconds:.1f} s "
            f"audio/s, {each.whole.cpu_seconds:.3f} CPU s/step; traces of the step: "
            f"{each.first_traces} after all batches were seen once, {each.traces} at the end",
            f"  {'part':<18}{'ms/step':>10}{'CPU ms':>10}{'share':>8}"
            + (f"{'CPU ms, ' + first.precision:>20}{'speedup':>9}" if each is not first else ""),
        ]
        shares = {**each.shares, "whole": 1.0}
        for part, times in {**each.parts, "whole": each.whole}.items():
            line = (
                f"  {part:<18}{1000 * times.wall_seconds:>10.1f}{1000 * times.cpu_seconds:>10.1f}"
                f"{shares[part]:>8.1%}"
            )
            if each is not first:
                peer = _cpu_seconds(first, part)
                line += f"{1000 * peer:>20.1f}"
                line += f"{peer / times.cpu_seconds:>9.2f}" if part != REST else ""
            lines.append(line)
    return "\n".join(lines)
