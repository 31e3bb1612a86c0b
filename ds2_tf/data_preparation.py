"""What happens to the data before the first step: check, alphabet, statistics."""

import collections
import hashlib
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from ds2_tf import (
    atomic,
    audio,
    audio_facts,
    config,
    data_check,
    data_report,
    data_rules,
    features,
    manifest,
    normalization,
    transfer,
)
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError
from ds2_tf.input_pipeline import pad
from ds2_tf.manifest import Utterance

# Settings that may change when a run goes on in its workdir: what the manifests hold is compared.
_FREE_SETTINGS = (
    "data.train",
    "data.dev",
    "data.max_bad_share",
    "augment.noise_manifest",
    "training.num_epochs",
    "training.checkpoint_steps",
    "training.keep_checkpoints",
    "training.log_steps",
    "training.max_skipped_steps",
    "schedule.stop_after_epochs",
    "memory.fallback",
    "memory.budget_mib",
    "memory.gpu_growth",
    "memory.gpu_limit_mib",
)
_BATCH_SIZE = 16


def prepare(
    run: config.RunConfig,
    workdir: pathlib.Path,
    utterances: Sequence[Utterance],
    dev_utterances: Sequence[Utterance],
    started: bool,
) -> None:
    """Fills the workdir of a run; `load` reads what the run needs from there.

    The first call checks every row and writes alphabet.json, normalization.npz, data.json and
    config.json. A later call on the same workdir makes sure that settings and data are still the
    same; while no step is done, changed settings make it begin anew instead.

    Args:
      run: all settings.
      workdir: of the run.
      utterances: to train on.
      dev_utterances: to evaluate on.
      started: whether the workdir holds a checkpoint.

    Raises:
      UserError: when a row cannot be trained on, or settings or data changed since the first call.
    """
    config_path = workdir / "config.json"
    data_path = workdir / "data.json"
    noise = _noise(run)
    data = _describe(run, utterances, dev_utterances)
    if started:
        _require_same_settings(config_path, run)
        _require_same_data(data_path, data)
        config.save(run, config_path)
        return
    if config_path.exists() and config.load(config_path) == run and _read(data_path) == data:
        return
    atomic.check_folder(workdir)
    config_path.unlink(missing_ok=True)
    statistics = None
    if run.training.init_from:
        statistics, reason = transfer.reusable_normalization(run.features, run.training.init_from)
        logging.info("%s", reason)
    alphabet = config.make_alphabet(run.alphabet, [u.transcript for u in utterances])
    _log_alphabet(alphabet, utterances)
    findings = data_check.check(
        [*utterances, *dev_utterances],
        alphabet,
        run.features,
        run.model.time_stride,
        allow=run.data.allow,
    )
    if findings:
        raise UserError(
            f"{data_report.describe(findings[0])}. Rows that cannot be trained on: "
            f"{len({f.row for f in findings})}; see them all with `ds2 check_data` and train on "
            "what its --write_clean writes, or tolerate reasons by config.data.allow"
        )
    for _, facts in audio_facts.measure_all(path for row in noise for path in row.audio_paths):
        if isinstance(facts, audio.AudioError):
            raise UserError(f"{run.augment.noise_manifest}: {facts}")
    if statistics is None:
        power = normalization.mean_power(_waveform_batches(run, utterances, "power"))
        statistics = normalization.measure(_feature_batches(run, utterances, power), power)
    alphabet.save(workdir / "alphabet.json")
    statistics.save(workdir / "normalization.npz")
    with atomic.open_for_write(data_path) as file:
        json.dump(data, file)
    config.save(run, config_path)


def require_same_as_chief(
    run: config.RunConfig,
    workdir: pathlib.Path,
    utterances: Sequence[Utterance],
    dev_utterances: Sequence[Utterance],
) -> None:
    """Makes sure that this worker has the settings and data that the chief has just prepared.

    Raises:
      UserError: when it has others, or does not see the chief's files.
    """
    path = workdir / "config.json"
    if not path.exists():
        raise UserError(
            f"{workdir}: lacks what the chief wrote into its --workdir; all workers must share "
            "one: put it on a shared disk"
        )
    if differences := config.differences(config.load(path), run):
        raise UserError(
            f"{path}: the chief trains with other settings (chief's, this worker's: "
            f"{'; '.join(differences)}); start all workers with the same command"
        )
    _require_same_data(workdir / "data.json", _describe(run, utterances, dev_utterances))


def _noise(run: config.RunConfig) -> list[Utterance]:
    return manifest.read(run.augment.noise_manifest) if run.augment.noise_manifest else []


def _describe(
    run: config.RunConfig, utterances: Sequence[Utterance], dev_utterances: Sequence[Utterance]
) -> dict[str, Any]:
    return {
        "fingerprint": _fingerprint([*utterances, *dev_utterances, *_noise(run)]),
        "utterances": len(utterances),
    }


def load(workdir: pathlib.Path) -> tuple[Alphabet, normalization.Normalization]:
    """Returns the alphabet and the feature statistics of a workdir that `prepare` filled."""
    return (
        Alphabet.load(workdir / "alphabet.json"),
        normalization.load(workdir / "normalization.npz"),
    )


def _log_alphabet(alphabet: Alphabet, utterances: Sequence[Utterance]) -> None:
    """Logs its size, and which characters of the training transcripts become U+FFFD."""
    num_pairs = sum(len(symbol) == 2 for symbol in alphabet.symbols)
    num_characters = len(alphabet.symbols) - num_pairs
    logging.info("alphabet: %d characters and %d pairs of them", num_characters, num_pairs)
    if not alphabet.writes_unknown:
        return
    rare: collections.Counter[str] = collections.Counter()
    total = 0
    for utterance in utterances:
        rare.update(alphabet.unknown_characters(utterance.transcript))
        total += len(alphabet.normalize(utterance.transcript))
    logging.info(
        "characters trained as U+FFFD: %d kinds, %.3f %% of all characters: %s",
        len(rare),
        100 * rare.total() / max(1, total),
        data_rules.list_characters(rare, most=10) or "none",
    )


def _feature_batches(
    run: config.RunConfig, utterances: Sequence[Utterance], power: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields features [B, T, F] and lengths [B] of random training utterances."""
    for waveforms, lengths in _waveform_batches(run, utterances, "feature statistics"):
        spectrograms, frame_lengths = features.log_spectrogram(
            run.features, tf.constant(waveforms), tf.constant(lengths), power
        )
        yield spectrograms.numpy(), frame_lengths.numpy()


def _waveform_batches(
    run: config.RunConfig, utterances: Sequence[Utterance], purpose: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields waveforms [B, S] and lengths [B] of random training utterances."""
    count = min(run.data.normalization_utterances, len(utterances))
    generator = np.random.default_rng(run.training.seed)
    permuted = generator.permutation(len(utterances))[:count].tolist()
    chosen = sorted(permuted, key=lambda i: utterances[i].duration_seconds)
    for start in tqdm(range(0, count, _BATCH_SIZE), purpose, unit="batch"):
        batch = [utterances[i] for i in chosen[start : start + _BATCH_SIZE]]
        samples = [audio.load_utterance(u, run.features.sample_rate_hz) for u in batch]
        yield pad(samples, np.float32)


def _fingerprint(utterances: Sequence[Utterance]) -> str:
    """Returns a hash of what the rows say, without the place where the files lie."""
    digest = hashlib.sha256()
    for u in utterances:
        names = [pathlib.PurePath(path).name for path in u.audio_paths]
        row = [names, u.duration_seconds, u.pauses_seconds, u.transcript]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


def _require_same_settings(path: pathlib.Path, run: config.RunConfig) -> None:
    differences = config.differences(config.load(path), run)
    changed = [d for d in differences if d.partition(":")[0] not in _FREE_SETTINGS]
    for difference in differences:
        if difference not in changed:
            logging.info("setting changed since the run began (before, now): %s", difference)
    if changed:
        raise UserError(
            f"{path}: this run began with other settings ({'; '.join(changed)}); go on with the "
            "same ones or choose a new --workdir"
        )


def _require_same_data(path: pathlib.Path, data: dict[str, Any]) -> None:
    if _read(path) != data:
        raise UserError(
            f"{path}: this run began with other data; give back the manifests it began with or "
            "choose a new --workdir"
        )
    logging.info("data unchanged since the run began: %d training utterances", data["utterances"])


def _read(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: not found; {path.parent} holds a model, not a run: choose a new --workdir "
            "and begin with the model by config.training.init_from"
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); choose a new --workdir") from error
