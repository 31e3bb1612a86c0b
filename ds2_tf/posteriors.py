"""What a model hears in recordings, kept on disk: decoders are tuned without hearing them again."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from ds2_tf import atomic, audio
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance
from ds2_tf.transcribe import hear
from ds2_tf.windows import WINDOW_SECONDS

_BATCH_SIZE = 8


@dataclasses.dataclass(frozen=True)
class Posteriors:
    """Frames of log-probabilities of utterances, and what was said.

    Attributes:
      log_probs: of each utterance [T', V] float32.
      references: the normalised transcripts.
      digest: stands for all of it, to tell whether results belong to it.
    """

    log_probs: list[np.ndarray]
    references: list[str]
    digest: str


def of_manifest(
    workdir: str | os.PathLike,
    utterances: Sequence[Utterance],
    folder: str | os.PathLike,
    progress: bool = True,
) -> Posteriors:
    """Returns what a run's best model hears, from the folder if it was heard before.

    Args:
      workdir: of the trained model.
      utterances: none longer than 60 seconds.
      folder: where to keep them; under another name for other weights or utterances.
      progress: whether to show a bar.

    Raises:
      UserError: for a recording that cannot be read or is too long, a workdir without model, or a
        model whose output is not a number.
    """
    alphabet = Alphabet.load(pathlib.Path(workdir, "alphabet.json"))
    references = [alphabet.normalize(utterance.transcript) for utterance in utterances]
    digest = _digest(workdir, utterances, references)
    path = pathlib.Path(folder, f"posteriors-{digest}.npz")
    if path.exists():
        return Posteriors(_read(path, len(utterances)), references, digest)
    for utterance in utterances:
        if utterance.duration_seconds > WINDOW_SECONDS:
            raise UserError(
                f"{utterance.audio_path}: lasts {utterance.duration_seconds:.0f} s; tune with "
                f"recordings of at most {WINDOW_SECONDS:.0f} s"
            )
    heard = _hear(AcousticModel.load(workdir), utterances, progress)
    with atomic.open_for_write(path, "wb") as file:
        np.savez(file, *heard)
    return Posteriors(heard, references, digest)


def _hear(
    model: AcousticModel, utterances: Sequence[Utterance], progress: bool
) -> list[np.ndarray]:
    heard: list[np.ndarray] = [np.zeros((0, model.alphabet.num_labels), np.float32)] * len(
        utterances
    )
    # Utterances of like length together: less padding.
    order = sorted(range(len(utterances)), key=lambda i: -utterances[i].duration_seconds)
    with tqdm(total=len(order), desc="hearing", unit="utterance", disable=not progress) as bar:
        for first in range(0, len(order), _BATCH_SIZE):
            batch = order[first : first + _BATCH_SIZE]
            log_probs, frames = hear(
                model, [audio.load_utterance(utterances[i], model.sample_rate_hz) for i in batch]
            )
            for row, i in enumerate(batch):
                heard[i] = log_probs[row, : frames[row]].copy()
            bar.update(len(batch))
    return heard


def _read(path: pathlib.Path, count: int) -> list[np.ndarray]:
    try:
        with np.load(path) as arrays:
            return [arrays[f"arr_{i}"] for i in range(count)]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: is damaged ({error}); delete it") from error


def _digest(
    workdir: str | os.PathLike, utterances: Sequence[Utterance], references: Sequence[str]
) -> str:
    hashed = hashlib.sha256()
    for name in ("config.json", "normalization.npz", "best/weights.npz"):
        path = pathlib.Path(workdir, name)
        if not path.exists():
            raise UserError(f"{path}: not found; name the folder of a trained model")
        hashed.update(path.read_bytes())
    for utterance, reference in zip(utterances, references, strict=True):
        row = (utterance.audio_paths, utterance.pauses_seconds, reference)
        hashed.update(repr(row).encode())
    return hashed.hexdigest()[:16]
