"""Spoken digits of the Free Spoken Digit Dataset, alone and joined to strings.

Recordings are split first and joined afterwards, so no recording occurs in two splits.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import soundfile

from ds2_tf import audio, manifest
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEST_TAKES = range(5)  # the dataset's own test set
DEV_TAKES = range(45, 50)  # not 5-9: some of those are cut short, which only training can use
MAX_DIGITS = 7
PAUSE_SECONDS = (0.05, 0.4)
NUM_TRAINING_STRINGS = 9000
_SEED = 20160601


@dataclasses.dataclass(frozen=True)
class Recording:
    """One spoken digit: file DIGIT_SPEAKER_TAKE.flac."""

    path: str
    digit: int
    speaker: str
    take: int
    duration_seconds: float


def read(folder: str | pathlib.Path) -> list[Recording]:
    """Returns the recordings of a folder, sorted by name.

    Raises:
      UserError: when the folder has none, or a file of another name or that is no sound file.
    """
    recordings = []
    for path in sorted(pathlib.Path(folder).glob("*.flac")):
        digit, _, rest = path.stem.partition("_")
        speaker, _, take = rest.rpartition("_")
        if not (digit.isdigit() and take.isdigit() and speaker and int(digit) < len(DIGITS)):
            raise UserError(f"{path}: not named DIGIT_SPEAKER_TAKE.flac; rename or remove it")
        info = audio.probe(path)
        seconds = info.num_frames / info.sample_rate_hz
        recordings.append(Recording(str(path), int(digit), speaker, int(take), seconds))
    if not recordings:
        raise UserError(f"{folder}: no .flac recordings; name the folder that holds them")
    return recordings


def splits(recordings: Sequence[Recording], unseen_speaker: str) -> dict[str, list[Utterance]]:
    """Returns the utterances of each split.

    "train" holds strings of 1 to 7 digits of one speaker, the lengths equally likely. "dev",
    "test_known" and "test_unseen" hold each of their recordings twice: alone and inside a string
    (but for a last one that finds no partner).
    The unseen speaker occurs in "test_unseen" only.

    Args:
      recordings: of all speakers.
      unseen_speaker: kept out of training and dev.

    Raises:
      UserError: when the unseen speaker does not occur, or a known one has too few recordings.
    """
    speakers = sorted({r.speaker for r in recordings})
    if unseen_speaker not in speakers or len(speakers) < 2:
        raise UserError(
            f"no recordings of the unseen speaker {unseen_speaker!r} and another one; there are "
            f"{', '.join(speakers)}"
        )
    known = [r for r in recordings if r.speaker != unseen_speaker]
    train = [r for r in known if r.take not in (*TEST_TAKES, *DEV_TAKES)]
    for speaker in sorted({r.speaker for r in known}):
        count = sum(r.speaker == speaker for r in train)
        if count < MAX_DIGITS:
            raise UserError(
                f"speaker {speaker!r} has {count} recordings to train on, strings need "
                f"{MAX_DIGITS}; complete the folder"
            )
    return {
        "train": _training_strings(train, np.random.default_rng(_SEED)),
        "dev": _alone_and_joined([r for r in known if r.take in DEV_TAKES]),
        "test_known": _alone_and_joined([r for r in known if r.take in TEST_TAKES]),
        "test_unseen": _alone_and_joined([r for r in recordings if r.speaker == unseen_speaker]),
    }


def write_manifests(
    recordings: Sequence[Recording], unseen_speaker: str, folder: pathlib.Path
) -> dict[str, pathlib.Path]:
    """Writes a manifest for each split and returns their paths by the split's name."""
    paths = {}
    for name, utterances in splits(recordings, unseen_speaker).items():
        paths[name] = folder / f"{name}.jsonl"
        manifest.write(paths[name], utterances)
    return paths


def write_wavs(
    utterances: Sequence[Utterance], sample_rate_hz: int, folder: pathlib.Path
) -> list[pathlib.Path]:
    """Writes utterances as 16-bit wav files and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for i, utterance in enumerate(utterances):
        paths.append(folder / f"{i}_{utterance.transcript.replace(' ', '_')}.wav")
        samples = audio.load_utterance(utterance, sample_rate_hz)
        soundfile.write(paths[-1], samples, sample_rate_hz, subtype="PCM_16")
    return paths


def _training_strings(
    recordings: Sequence[Recording], generator: np.random.Generator
) -> list[Utterance]:
    by_speaker = _by_speaker(recordings)
    speakers = sorted(by_speaker)
    strings: dict[tuple[Recording, ...], Utterance] = {}
    while len(strings) < NUM_TRAINING_STRINGS:
        choices = by_speaker[speakers[generator.integers(len(speakers))]]
        length = generator.integers(1, MAX_DIGITS + 1)
        parts = tuple(choices[i] for i in generator.choice(len(choices), length, replace=False))
        strings.setdefault(parts, _join(parts, generator))
    return list(strings.values())


def _alone_and_joined(recordings: Sequence[Recording]) -> list[Utterance]:
    generator = np.random.default_rng(_SEED)
    utterances = [_join([recording], generator) for recording in recordings]
    for _, choices in sorted(_by_speaker(recordings).items()):
        rest = [choices[i] for i in generator.permutation(len(choices))]
        while len(rest) > 1:
            length = generator.integers(2, MAX_DIGITS + 1)
            utterances.append(_join(rest[:length], generator))
            rest = rest[length:]
    return utterances


def _by_speaker(recordings: Sequence[Recording]) -> dict[str, list[Recording]]:
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        groups.setdefault(recording.speaker, []).append(recording)
    return groups


def _join(parts: Sequence[Recording], generator: np.random.Generator) -> Utterance:
    pauses = generator.uniform(*PAUSE_SECONDS, len(parts) - 1).round(3).tolist()
    return Utterance(
        audio_paths=tuple(part.path for part in parts),
        duration_seconds=round(sum(p.duration_seconds for p in parts) + sum(pauses), 3),
        transcript=" ".join(DIGITS[part.digit] for part in parts),
        pauses_seconds=tuple(pauses),
        speaker=parts[0].speaker,
    )
