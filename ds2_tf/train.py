"""Training, from top to bottom: data, model, restore, loop, log."""

import dataclasses
import math
import os
import pathlib

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
    freezing,
    manifest,
    memory,
    model,
    optimizer,
    provenance,
    schedule,
    transfer,
)
from ds2_tf.acoustic_model import BEST_WEIGHTS, AcousticModel
from ds2_tf.errors import UserError
from ds2_tf.input_pipeline import Epoch, InputPipeline
from ds2_tf.interruption import StopRequest
from ds2_tf.loss_scale import LossScale
from ds2_tf.profiling import Profiler
from ds2_tf.schedule import Score
from ds2_tf.train_step import Step, TrainStep
from ds2_tf.training_log import Meter, TrainingLog


@dataclasses.dataclass
class Progress:
    """Where a run stands; saved with each checkpoint.

    Attributes:
      step: steps done, those left out included.
      epoch: the current epoch, from 0.
      batch: batches of the current epoch done.
      skipped: steps in a row that were left out, up to now.
      scores: on the dev set, one for each epoch.
      loss_scale: of half precision.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    skipped: int = 0
    scores: list[Score] = dataclasses.field(default_factory=list)
    loss_scale: LossScale = dataclasses.field(default_factory=LossScale)

    @property
    def best_score(self) -> Score:
        """The lowest error rates so far."""
        return min(self.scores, default=Score(math.inf, math.inf))

    @classmethod
    def from_json(cls, values: dict) -> "Progress":
        """Takes back what JSON made of `dataclasses.asdict`."""
        scores = [Score(*score) for score in values["scores"]]
        return cls(**{**values, "scores": scores, "loss_scale": LossScale(**values["loss_scale"])})


def train(run: config.RunConfig, workdir: str | os.PathLike, profile_steps: int = 0) -> Progress:
    """Trains a model, or goes on where an earlier call in the same workdir stopped.

    Writes config.json, alphabet.json, normalization.npz, checkpoints/, best/, metrics.jsonl,
    tensorboard/, provenance.jsonl and learning_curve.png. Stopped at any point, by Ctrl-C or by
    kill -9, the next call ends with the same weights as if nothing had happened.

    Args:
      run: all settings.
      workdir: the run's folder; all workers of a run share it.
      profile_steps: steps to write a TensorFlow profile of, into tensorboard/.

    Raises:
      UserError: for bad data or settings, when the loss is no longer a finite number, and when
        another worker is lost.
      KeyboardInterrupt: after Ctrl-C, when the checkpoint is written.

    Source: Deep Speech 2, sections 3 and 6.
    """
    folder = pathlib.Path(workdir)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; --workdir must name a folder, new or of this run")
    memory.set_up_gpus(run.memory)
    workers = distribution.connect()
    stop = StopRequest()
    with workers.lost_ones_told():
        training = _Training(run, folder, workers, stop, profile_steps)
        with stop:
            return training.run()


class _Training:
    def __init__(
        self,
        run: config.RunConfig,
        folder: pathlib.Path,
        workers: distribution.Workers,
        stop: StopRequest,
        profile_steps: int,
    ) -> None:
        """Prepares everything that the loop needs, as it was when the run last stopped."""
        self._run = run
        self._stop = stop
        self._folder = folder
        self._workers = workers
        keras.utils.set_random_seed(run.training.seed)
        if run.training.deterministic and tf.config.list_physical_devices("GPU"):
            # On CPUs all operations used here add in a fixed order anyway.
            tf.config.experimental.enable_op_determinism()

        utterances = manifest.read(run.data.train)
        self._dev = manifest.read(run.data.dev) if run.data.dev else []
        if run.schedule.needs_scores and not self._dev:
            raise UserError(
                "config.schedule: plateaus and early stopping are judged on a dev set; name it by "
                "config.data.dev"
            )
        self._checkpoints = checkpoint.CheckpointFolder(
            folder / "checkpoints", run.training.keep_checkpoints
        )
        with workers.all_or_none():
            if workers.is_chief:
                started = self._checkpoints.latest() is not None
                data_preparation.prepare(run, folder, utterances, self._dev, started)
        with workers.all_or_none():
            if not workers.is_chief:
                data_preparation.require_same_as_chief(run, folder, utterances, self._dev)
        alphabet, normalization = data_preparation.load(folder)

        with workers.strategy.scope():
            self._network = model.DeepSpeech2(
                run.model, run.features.num_bins, alphabet.num_labels, run.training.precision
            )
            freezing.freeze(self._network, run.training.freeze)
            self._update = optimizer.make(run.optimizer)
            self._update.build(self._network.trainable_variables)
        self._model = AcousticModel(run, alphabet, normalization, self._network)
        self._pipeline = InputPipeline(
            utterances,
            alphabet,
            run.features,
            run.model,
            normalization,
            batch_config=run.batches,
            augment_config=run.augment,
            seed=run.training.seed,
            num_replicas=workers.num_replicas,
            worker=workers.index,
            num_workers=workers.count,
            max_bad_share=run.data.max_bad_share,
        )
        self._train_step = TrainStep(
            workers.strategy, self._network, self._update, run.optimizer.clip_norm
        )
        self._planner = memory.MemoryPlanner(
            run.memory, self._network, run.training.precision, workers.num_local_replicas
        )

        self._weights = checkpoint.model_arrays(self._network)
        self._variables = self._weights | checkpoint.optimizer_arrays(self._update)
        with workers.all_or_none():
            self._progress = self._restore()
        if workers.is_chief:
            provenance.record(
                folder / "provenance.jsonl",
                step=self._progress.step,
                workers=workers.count,
                replicas=workers.num_replicas,
                devices=list(workers.strategy.extended.worker_devices),
                precision=run.training.precision,
            )
        self._profiler = Profiler(folder / "tensorboard", self._progress.step, profile_steps)
        log_folder = folder if workers.is_chief else folder / f"worker_{workers.index}"
        self._log = TrainingLog(log_folder, self._progress.step, self._progress.epoch)
        self._meter = Meter(run.features.step / run.features.sample_rate_hz)

    def _restore(self) -> Progress:
        """Loads the last checkpoint, or the weights of `init_from`, or leaves the fresh ones."""
        progress = Progress(loss_scale=LossScale.for_precision(self._run.training.precision))
        if (latest := self._checkpoints.latest()) is not None:
            progress = Progress.from_json(checkpoint.restore(latest, self._variables))
            logging.info("going on from step %d of %s", progress.step, latest)
        elif self._run.training.init_from:
            report = transfer.initialize(
                self._network, self._model.alphabet, self._run.training.init_from
            )
            for line in report.lines():
                logging.info("%s", line)
        return progress

    def run(self) -> Progress:
        """Trains to the end."""
        progress, training = self._progress, self._run.training
        while progress.epoch < training.num_epochs and not schedule.is_finished(
            self._run.schedule, progress.scores
        ):
            epoch = self._pipeline.epoch(progress.epoch, progress.batch)
            logging.info(
                "epoch %d of %d: %d batches, %.1f %% padding",
                progress.epoch + 1,
                training.num_epochs,
                epoch.num_batches,
                100 * epoch.padding_share,
            )
            self._meter.restart()
            with self._progress_bar(epoch) as bar, self._profiler:
                for batch in self._meter.waiting_for(epoch.dataset):
                    self._pipeline.bad_audio.check()
                    step = self._step(batch, epoch)
                    self._profiler.after(progress.step)
                    bar.set_postfix_str(
                        f"loss {step.loss:.2f}, {self._meter.pace()}", refresh=False
                    )
                    bar.update()
                    if progress.step % training.log_steps == 0:
                        self._log.write(progress.step, self._meter.take())
                    if step.stop_requests or progress.step % training.checkpoint_steps == 0:
                        self._save()
                    if step.stop_requests:
                        logging.info("stopped at step %d; the same command goes on", progress.step)
                        raise KeyboardInterrupt
            self._end_epoch()
        self._workers.wait_for_all()
        return progress

    def _step(self, batch: dict[str, tf.Tensor], epoch: Epoch) -> Step:
        """Makes one step, or leaves it out when its loss or gradient is no finite number."""
        progress = self._progress
        rate = schedule.learning_rate(
            self._run.schedule, progress.step, progress.epoch, progress.scores
        )
        self._update.learning_rate.assign(rate)
        step = self._compute(batch, epoch)
        finite = np.isfinite(step.loss) and np.isfinite(step.gradient_norm)
        if finite:
            self._train_step.apply(step.gradient_norm)
            progress.loss_scale.grow()
            progress.skipped = 0
        elif not (np.isfinite(step.loss) and progress.loss_scale.shrink()):
            self._skip(step, batch)
        progress.step += 1
        progress.batch += 1
        clipped = step.gradient_norm > self._run.optimizer.clip_norm
        num_frames = int(tf.reduce_sum(batch["feature_lengths"]))
        self._meter.add(
            loss=step.loss,
            gradient_norm=step.gradient_norm,
            learning_rate=rate,
            num_frames=num_frames,
            clipped=clipped,
            skipped=not finite,
        )
        return step

    def _compute(self, batch: dict[str, tf.Tensor], epoch: Epoch) -> Step:
        """Computes the gradients, with less memory where the batch needs it."""
        progress = self._progress
        num_rows = epoch.num_rows[progress.batch]
        num_frames = epoch.num_frames[progress.batch]
        execution = self._planner.choose(num_rows, num_frames)
        while True:
            try:
                return self._train_step.compute(
                    batch, execution, progress.loss_scale.value, self._stop.requested
                )
            except tf.errors.ResourceExhaustedError as error:
                again = None
                if self._workers.count == 1:
                    again = self._planner.after_failure(execution, num_rows, num_frames)
                if again is None:
                    rows = self._pipeline.name_rows(batch["utterance_index"].numpy().tolist())
                    raise UserError(
                        f"out of memory at step {progress.step + 1}; set config.memory.budget_mib "
                        "below what the device has, so that large batches are foreseen, or a "
                        f"smaller config.batches.max_frames. The batch: {rows}"
                    ) from error
                execution = again

    def _skip(self, step: Step, batch: dict[str, tf.Tensor]) -> None:
        """Notes a step that is left out; raises `UserError` when there were too many in a row."""
        progress = self._progress
        progress.skipped += 1
        rows = self._pipeline.name_rows(batch["utterance_index"].numpy().tolist())
        what = (
            f"loss {step.loss} and gradient norm {step.gradient_norm} at step {progress.step + 1}"
        )
        if progress.skipped > self._run.training.max_skipped_steps:
            raise UserError(
                f"{what}: training cannot go on; look at the rows of the batch, or start a new "
                "--workdir with a lower config.schedule.learning_rate, or let single batches be "
                f"left out by config.training.max_skipped_steps. The batch: {rows}"
            )
        logging.error("%s: left out, %d in a row. The batch: %s", what, progress.skipped, rows)

    def _end_epoch(self) -> None:
        """Evaluates, keeps the weights if they are the best, and saves."""
        progress = self._progress
        progress.epoch, progress.batch = progress.epoch + 1, 0
        score = Score(*self._workers.from_chief(self._evaluate()))
        is_best = score <= progress.best_score
        progress.scores.append(score)
        if is_best and self._workers.is_chief:
            checkpoint.save(self._folder / BEST_WEIGHTS, self._weights, self._metadata())
        self._log.draw()
        self._save()

    def _evaluate(self) -> Score:
        """Returns and logs the dev set's error rates; 0 without a dev set, and but on the chief."""
        if not (self._dev and self._workers.is_chief):
            return Score(0.0, 0.0)
        result = evaluate.evaluate(self._model, self._dev, progress=False)
        word, character = result.word.rate, result.character.rate
        step, epoch = self._progress.step, self._progress.epoch
        self._log.write(step, {"epoch": epoch, "dev_wer": word, "dev_cer": character})
        self._log.write_samples(step, result.utterances)
        logging.info("epoch %d: dev WER %.1f %%, CER %.1f %%", epoch, 100 * word, 100 * character)
        if self._model.alphabet.spaced:
            return Score(word, character)
        return Score(character, word)

    def _save(self) -> None:
        if self._workers.is_chief:
            self._checkpoints.save(self._progress.step, self._variables, self._metadata())

    def _metadata(self) -> dict:
        return dataclasses.asdict(self._progress)

    def _progress_bar(self, epoch: Epoch) -> tqdm:
        return tqdm(
            desc=f"epoch {self._progress.epoch + 1}",
            total=epoch.num_batches,
            initial=self._progress.batch,
            unit="batch",
            mininterval=1.0,
        )
