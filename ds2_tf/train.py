"""Training, from top to bottom: data, model, restore, loop, log."""

import dataclasses
import os
import pathlib
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from ds2_tf import (
    checkpoint,
    config,
    data_preparation,
    distribution,
    evaluate,
    manifest,
    model,
    optimizer,
    schedule,
)
from ds2_tf.acoustic_model import BEST_WEIGHTS, AcousticModel
from ds2_tf.errors import UserError
from ds2_tf.input_pipeline import BATCH_SIGNATURE, InputPipeline
from ds2_tf.interruption import StopRequest
from ds2_tf.ops.ctc import ctc_loss
from ds2_tf.training_log import TrainingLog


@dataclasses.dataclass
class Progress:
    """Where a run stands; saved with each checkpoint.

    Attributes:
      step: steps done.
      epoch: the current epoch, from 0.
      batch: batches of the current epoch done.
      best_score: word and character error rate of the best weights so far.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_score: tuple[float, float] = (float("inf"), float("inf"))

    def __post_init__(self) -> None:
        """Takes back the list that JSON makes of a tuple."""
        word, character = self.best_score
        self.best_score = (word, character)


def train(run: config.RunConfig, workdir: str | os.PathLike) -> Progress:
    """Trains a model, or goes on where an earlier call in the same workdir stopped.

    Writes config.json, alphabet.json, normalization.npz, checkpoints/, best/, metrics.jsonl,
    tensorboard/ and learning_curve.png. Stopped at any point, by Ctrl-C or by kill -9, the next
    call ends with the same weights as if nothing had happened.

    Raises:
      UserError: for bad data or settings, and when the loss is no longer a finite number.
      KeyboardInterrupt: after Ctrl-C, when the checkpoint is written.

    Source: Deep Speech 2, sections 3 and 6.
    """
    folder = pathlib.Path(workdir)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; --workdir must name a folder, new or of this run")
    keras.utils.set_random_seed(run.training.seed)
    if run.training.deterministic and tf.config.list_physical_devices("GPU"):
        # On CPUs all operations used here add in a fixed order anyway.
        tf.config.experimental.enable_op_determinism()

    utterances = manifest.read(run.data.train)
    dev_utterances = manifest.read(run.data.dev) if run.data.dev else []
    alphabet, normalization = data_preparation.prepare(run, folder, utterances, dev_utterances)

    strategy = distribution.make_strategy()
    with strategy.scope():
        network = model.DeepSpeech2(run.model, run.features.num_bins, alphabet.num_labels)
        update = optimizer.make(run.optimizer)
        update.build(network.trainable_variables)
    acoustic_model = AcousticModel(run, alphabet, normalization, network)
    pipeline = InputPipeline(
        utterances,
        alphabet,
        run.features,
        run.model,
        normalization,
        batch_config=run.batches,
        augment_config=run.augment,
        seed=run.training.seed,
        num_replicas=strategy.num_replicas_in_sync,
        max_bad_share=run.data.max_bad_share,
    )
    train_step = make_train_step(strategy, network, update, run.optimizer.clip_norm)

    checkpoints = checkpoint.CheckpointFolder(folder / "checkpoints", run.training.keep_checkpoints)
    weights = checkpoint.model_arrays(network)
    variables = weights | checkpoint.optimizer_arrays(update)
    progress = Progress()
    if (latest := checkpoints.latest()) is not None:
        progress = Progress(**checkpoint.restore(latest, variables))
        logging.info("going on from step %d of %s", progress.step, latest)
    log = TrainingLog(folder, progress.step, progress.epoch)

    def save() -> None:
        checkpoints.save(progress.step, variables, dataclasses.asdict(progress))

    with StopRequest() as stop:
        while progress.epoch < run.training.num_epochs:
            epoch = pipeline.epoch(progress.epoch, progress.batch)
            logging.info(
                "epoch %d: %d batches, %.1f %% padding",
                progress.epoch + 1,
                epoch.num_batches,
                100 * epoch.padding_share,
            )
            recent = _Recent()
            with _progress_bar(progress, epoch.num_batches) as bar:
                for batch in epoch.dataset:
                    pipeline.bad_audio.check()
                    rate = schedule.learning_rate(run.schedule, progress.step, progress.epoch)
                    update.learning_rate.assign(rate)
                    loss, gradient_norm = (float(x) for x in train_step(batch))
                    if not np.isfinite(loss + gradient_norm):
                        raise _not_finite(loss, gradient_norm, progress, batch, pipeline)
                    progress.step += 1
                    progress.batch += 1
                    recent.add(loss, gradient_norm, len(batch["labels"]))
                    bar.set_postfix_str(f"loss {loss:.2f}", refresh=False)
                    bar.update()
                    if progress.step % run.training.log_steps == 0:
                        log.write(progress.step, {**recent.means(), "learning_rate": rate})
                        recent = _Recent()
                    if stop.requested or progress.step % run.training.checkpoint_steps == 0:
                        save()
                    if stop.requested:
                        logging.info("stopped at step %d; the same command goes on", progress.step)
                        raise KeyboardInterrupt
            progress.epoch, progress.batch = progress.epoch + 1, 0
            score = _evaluate(acoustic_model, dev_utterances, progress, log)
            if score <= progress.best_score:
                progress.best_score = score
                checkpoint.save(folder / BEST_WEIGHTS, weights, dataclasses.asdict(progress))
            log.draw()
            save()
    return progress


def make_train_step(
    strategy: tf.distribute.Strategy,
    network: keras.Model,
    update: keras.optimizers.Optimizer,
    clip_norm: float,
) -> Any:
    """Returns the function that makes one step of training on a global batch.

    The loss is the sum of the utterances' losses over the global batch, divided by the number of
    its utterances. Each replica takes its share of the rows; the gradients are summed over the
    replicas, clipped to `clip_norm` and applied.

    The function takes a batch and returns the loss and the gradient's norm before clipping.
    """
    variables = network.trainable_variables

    def replica_step(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        context = tf.distribute.get_replica_context()
        share = distribution.share_of_replica(batch, context)
        num_utterances = context.all_reduce(
            tf.distribute.ReduceOp.SUM,
            tf.math.count_nonzero(share["utterance_index"] >= 0, dtype=tf.float32),
        )
        with tf.GradientTape() as tape:
            outputs = network(
                {key: share[key] for key in ("features", "feature_lengths")}, training=True
            )
            losses = ctc_loss(
                outputs["logits"], outputs["logit_lengths"], share["labels"], share["label_lengths"]
            )
            loss = tf.reduce_sum(losses) / tf.maximum(num_utterances, 1.0)
        gradients = tape.gradient(loss, variables)
        loss, gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, (loss, gradients))
        norm = tf.linalg.global_norm(gradients)
        scale = clip_norm / tf.maximum(norm, clip_norm)
        update.apply([gradient * scale for gradient in gradients], variables)
        return loss, norm

    @tf.function(input_signature=[BATCH_SIGNATURE])
    def train_step(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        per_replica = strategy.run(replica_step, (batch,))
        return tuple(strategy.experimental_local_results(value)[0] for value in per_replica)

    return train_step


def _not_finite(
    loss: float,
    gradient_norm: float,
    progress: Progress,
    batch: dict[str, tf.Tensor],
    pipeline: InputPipeline,
) -> UserError:
    rows = pipeline.name_rows(batch["utterance_index"].numpy().tolist())
    return UserError(
        f"loss {loss} and gradient norm {gradient_norm} at step {progress.step + 1}: training "
        "cannot go on; look at the rows of the batch, or start a new --workdir with a lower "
        f"config.schedule.learning_rate. The batch: {rows}"
    )


def _evaluate(
    acoustic_model: AcousticModel,
    utterances: list[manifest.Utterance],
    progress: Progress,
    log: TrainingLog,
) -> tuple[float, float]:
    """Returns and logs the dev set's word and character error rate; without a dev set, 0."""
    if not utterances:
        return 0.0, 0.0
    result = evaluate.evaluate(acoustic_model, utterances, progress=False)
    score = (result.word.rate, result.character.rate)
    log.write(progress.step, {"epoch": progress.epoch, "dev_wer": score[0], "dev_cer": score[1]})
    logging.info(
        "epoch %d: dev WER %.1f %%, CER %.1f %%", progress.epoch, *(100 * s for s in score)
    )
    return score


def _progress_bar(progress: Progress, num_batches: int) -> tqdm:
    return tqdm(
        desc=f"epoch {progress.epoch + 1}",
        total=num_batches,
        initial=progress.batch,
        unit="batch",
        mininterval=1.0,
    )


class _Recent:
    """Means since the last row of the log."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._num_utterances = 0
        self._start = time.monotonic()

    def add(self, loss: float, gradient_norm: float, num_utterances: int) -> None:
        self._losses.append(loss)
        self._norms.append(gradient_norm)
        self._num_utterances += num_utterances

    def means(self) -> dict[str, float]:
        seconds = time.monotonic() - self._start
        return {
            "loss": float(np.mean(self._losses)),
            "gradient_norm": float(np.mean(self._norms)),
            "utterances_per_second": self._num_utterances / max(seconds, 1e-9),
        }
