"""Recordings to measure with."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterable, Sequence

import soundfile

from ds2_tf import audio, config
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "opus": ("OGG", "OPUS"),
}


def trainable(
    run: config.RunConfig, alphabet: Alphabet, utterances: Sequence[Utterance]
) -> list[Utterance]:
    """Returns the utterances that training can take, by their durations; no audio is read.

    Characters outside the alphabet are dropped, since speed does not depend on what is said.

    Raises:
      UserError: when no utterance is left.
    """
    kept = []
    for utterance in utterances:
        text = alphabet.normalize(utterance.transcript)
        unknown = alphabet.unknown_characters(text)
        text = "".join(character for character in text if character not in unknown)
        labels = alphabet.encode(text)
        needed = len(labels) + sum(a == b for a, b in itertools.pairwise(labels))
        num_samples = round(utterance.duration_seconds * run.features.sample_rate_hz)
        num_frames = run.features.num_frames(num_samples)
        if needed <= run.model.num_output_frames(num_frames):
            kept.append(dataclasses.replace(utterance, transcript=text))
    if not kept:
        raise UserError("no transcript fits its recording; see what `ds2 check_data` says")
    return kept


def lasting(utterances: Sequence[Utterance], seconds: float) -> list[Utterance]:
    """Returns the first utterances that last so long together, repeated when they are few."""
    chosen: list[Utterance] = []
    total = 0.0
    for utterance in itertools.cycle(utterances):
        chosen.append(utterance)
        total += utterance.duration_seconds
        if total >= seconds:
            break
    return chosen


def copies(
    utterances: Iterable[Utterance], name: str, sample_rate_hz: int, folder: pathlib.Path
) -> list[Utterance]:
    """Writes the utterances as mono files, at one rate, in one of `FORMATS`.

    Raises:
      UserError: when the format does not know the rate.
    """
    container, subtype = FORMATS[name]
    written = []
    for number, utterance in enumerate(utterances):
        path = folder / f"{number}.{name}"
        samples = audio.load_utterance(utterance, sample_rate_hz)
        try:
            soundfile.write(path, samples, sample_rate_hz, format=container, subtype=subtype)
        except soundfile.SoundFileError as error:
            raise UserError(
                f"{name} cannot be written at {sample_rate_hz} Hz ({error}); leave it out of "
                "--formats"
            ) from error
        written.append(dataclasses.replace(utterance, audio_paths=(str(path),), pauses_seconds=()))
    return written


def drop_from_cache(utterances: Iterable[Utterance]) -> None:
    """Makes the operating system forget the files, so that the next reader waits for the disk."""
    for path in {path for utterance in utterances for path in utterance.audio_paths}:
        with open(path, "rb") as file:
            os.fsync(file.fileno())  # Pages that are not yet on the disk cannot be dropped.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
