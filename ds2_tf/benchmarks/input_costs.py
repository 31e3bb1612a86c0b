"""What the input pipeline costs, and how long training waits for it."""

import dataclasses
import functools
import itertools
import time
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from ds2_tf import augment, config, model, optimizer
from ds2_tf.alphabet import Alphabet
from ds2_tf.benchmarks import measurement, recordings
from ds2_tf.benchmarks.measurement import Row
from ds2_tf.input_pipeline import InputPipeline
from ds2_tf.manifest import Utterance
from ds2_tf.normalization import Normalization
from ds2_tf.train_step import TrainStep
from ds2_tf.training_log import Meter

_BUCKETED_EPOCH = 1  # The first one may be sorted.


@dataclasses.dataclass(frozen=True)
class Wait:
    """How training waits for its batches.

    Attributes:
      first_seconds: until the first batch of the epoch is there.
      stall_share: of the time of all steps that was spent waiting, the first batch left out.
      steps: how many these are.
    """

    first_seconds: float
    stall_share: float
    steps: int


def cpu_seconds_an_hour(
    run: config.RunConfig,
    alphabet: Alphabet,
    formats: Mapping[str, Sequence[Utterance]],
    repetitions: int,
) -> dict[tuple[str, bool], float]:
    """Returns the CPU seconds for an hour of audio, by format and whether audio is augmented.

    From planning an epoch to its last batch; all are measured in turn.
    """
    pipelines = {
        (name, augmented): pipeline(run, alphabet, utterances, augmented)
        for name, utterances in formats.items()
        for augmented in (False, True)
    }
    actions = {key: functools.partial(_exhaust, each) for key, each in pipelines.items()}
    times = measurement.in_turn(actions, repetitions)
    hours = {
        name: sum(u.duration_seconds for u in utterances) / 3600
        for name, utterances in formats.items()
    }
    return {key: value.cpu_seconds / hours[key[0]] for key, value in times.items()}


def _exhaust(source: InputPipeline) -> None:
    for _ in source.epoch(_BUCKETED_EPOCH).dataset:
        pass


def pipeline(
    run: config.RunConfig, alphabet: Alphabet, utterances: Sequence[Utterance], augmented: bool
) -> InputPipeline:
    """Returns a run's pipeline; its features are shifted by constants, not by statistics."""
    bins = run.features.num_bins
    return InputPipeline(
        utterances,
        alphabet,
        run.features,
        run.model,
        Normalization(np.full(bins, -5, np.float32), np.full(bins, 2, np.float32)),
        batch_config=run.batches,
        augment_config=run.augment if augmented else augment.AugmentConfig(),
        seed=run.training.seed,
    )


def waits(
    run: config.RunConfig, alphabet: Alphabet, utterances: Sequence[Utterance], num_steps: int
) -> dict[str, Wait]:
    """Trains on one device and returns how it waits: "cold", files on the disk, and "cached"."""
    keras.utils.set_random_seed(run.training.seed)
    network = model.DeepSpeech2(
        run.model, run.features.num_bins, alphabet.num_labels, run.training.precision
    )
    update = optimizer.make(run.optimizer)
    update.build(network.trainable_variables)
    train_step = TrainStep(tf.distribute.get_strategy(), network, update, run.optimizer.clip_norm)
    source = pipeline(run, alphabet, utterances, augmented=True)
    _train(source, train_step, run, 1)
    recordings.drop_from_cache(utterances)
    return {
        "cold": _train(source, train_step, run, num_steps),
        "cached": _train(source, train_step, run, num_steps),
    }


def _train(
    source: InputPipeline, train_step: TrainStep, run: config.RunConfig, num_steps: int
) -> Wait:
    """Makes the first steps of an epoch."""
    meter = Meter(run.features.step / run.features.sample_rate_hz)
    start = time.monotonic()
    first_seconds = 0.0
    dataset = source.epoch(_BUCKETED_EPOCH).dataset
    steps = 0
    for batch in itertools.islice(meter.waiting_for(dataset), num_steps):
        if not steps:
            first_seconds = time.monotonic() - start
            meter.restart()
        step = train_step.compute(batch)
        train_step.apply(step.gradient_norm)
        meter.add(
            loss=step.loss,
            gradient_norm=step.gradient_norm,
            learning_rate=0.0,
            num_frames=int(tf.reduce_sum(batch["feature_lengths"])),
            clipped=False,
            skipped=False,
        )
        steps += 1
    return Wait(first_seconds, meter.take()["input_stall_share"], steps)


def cost_rows(case: str, costs: Mapping[tuple[str, bool], float]) -> list[Row]:
    """Returns the results of `cpu_seconds_an_hour`."""
    return [
        Row(
            f"{case} {name}{' augmented' if augmented else ''}",
            "CPU seconds an hour of audio",
            seconds,
        )
        for (name, augmented), seconds in costs.items()
    ]


def wait_rows(case: str, found: Mapping[str, Wait]) -> list[Row]:
    """Returns the results of `waits`."""
    rows = []
    for state, wait in found.items():
        rows += [
            Row(f"{case} {state} files", "input_stall_share", wait.stall_share),
            Row(f"{case} {state} files", "seconds to the first batch", wait.first_seconds),
        ]
    return rows
