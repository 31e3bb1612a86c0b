"""When a row of a manifest is bad: each rule with its threshold and the data behind it."""

import collections
import dataclasses
import itertools
import os
import typing
from collections.abc import Iterator, Sequence

from ds2_tf.alphabet import Alphabet
from ds2_tf.audio import AudioError
from ds2_tf.audio_facts import SOUND_DBFS, AudioFacts
from ds2_tf.manifest import Utterance

if typing.TYPE_CHECKING:  # Importing TensorFlow takes seconds.
    from ds2_tf.features import FeatureConfig

_REMEDIES = {
    "audio_missing": "check the path",
    "audio_html": "download the recording itself",
    "audio_empty": "record it again or remove the row",
    "audio_unreadable": "convert it to wav",
    "audio_truncated": "copy or download it again",
    "audio_bad_header": "write the file again",
    "duration_off": "correct the row's duration, or its path if another recording is meant",
    "silent": "record it again or remove the row",
    "clipped": "record it at a lower level, or allow 'clipped'",
    "transcript_empty": "write down what is said or remove the row",
    "unknown_characters": "write them with the alphabet's characters, or add them to the alphabet",
    "too_long_for_frames": "check that text and recording belong together, or lower the stride",
    "implausible_rate": "check that text and recording belong together",
    "duplicate": "remove the row, or allow 'duplicate'",
}
REASONS = tuple(_REMEDIES)
"""Every reason for which a row is bad, in the order in which the findings of a row are listed."""

DURATION_TOLERANCE_SECONDS = 0.1
DURATION_TOLERANCE_SHARE = 0.01
"""A manifest's duration may differ from the file's by 0.1 s or 1 %, whichever is more."""

MIN_SOUND_WINDOWS = 3
"""A recording with fewer windows of 20 ms above `audio_facts.SOUND_DBFS` is silent, unless it has
no more windows than that. The softest of 15,500 recordings of speech has 3, one sound of 60 ms."""

MAX_FULL_SCALE_SHARE = 5e-3
"""A recording is clipped when more than 5 samples in 1000 are at full scale. Cutting the peaks of
clean speech by 6 dB brings 7 to 36 (medians of three corpora); uncut, the most was 3.6."""

MAX_LETTERS_PER_SECOND = 25
EXTRA_LETTERS = 5
"""More letters than 25 a second and 5 on top cannot be spoken. Read English has 14 a second, at
most 23; the 5 are for words cut out closely: a "three" of 0.18 s has 27."""

MIN_LETTERS_PER_SECOND = 2
EXTRA_SECONDS = 5
"""Fewer letters than 2 a second, 5 seconds of silence set aside, leave out what was said."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One reason why one row is bad.

    Attributes:
      utterance: the row.
      reason: one of `REASONS`.
      detail: what is wrong with it.
      remedy: what to do about it.
      row: its index in the list that was checked, from 0.
      characters: for "unknown_characters", how often each occurs.
    """

    utterance: Utterance
    reason: str
    detail: str
    remedy: str
    row: int
    characters: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter, compare=False
    )


@dataclasses.dataclass(frozen=True)
class Row:
    """A row with what its recordings are like: facts, or the error that each part raised."""

    index: int
    utterance: Utterance
    parts: Sequence[AudioFacts | AudioError]

    def finding(
        self,
        reason: str,
        detail: str,
        remedy: str = "",
        characters: collections.Counter[str] | None = None,
    ) -> Finding:
        """Returns a finding about this row, with the remedy for its reason."""
        return Finding(
            self.utterance,
            reason,
            detail,
            remedy or _REMEDIES[reason],
            self.index,
            characters or collections.Counter(),
        )

    @property
    def facts(self) -> list[AudioFacts] | None:
        """The facts of all parts, or None when a part cannot be read."""
        facts = [part for part in self.parts if isinstance(part, AudioFacts)]
        return facts if len(facts) == len(self.parts) else None


def audio_findings(row: Row) -> Iterator[Finding]:
    """Yields what is wrong with the recordings: audio_*, duration_off, silent, clipped."""
    joined = len(row.parts) > 1
    named_parts = zip(row.utterance.audio_paths, row.parts, strict=True)
    for path, part in dict.fromkeys(named_parts):
        prefix = f"part {os.path.basename(path)}: " if joined else ""
        if isinstance(part, AudioError):
            yield row.finding(f"audio_{part.reason}", prefix + part.detail, part.remedy)
            continue
        if part.is_zero:
            yield row.finding("silent", f"{prefix}digital silence, every sample is 0")
        elif part.num_sound_windows < min(MIN_SOUND_WINDOWS, part.num_windows):
            yield row.finding(
                "silent",
                f"{prefix}near silence, {part.num_sound_windows} of {part.num_windows} windows of "
                f"20 ms are louder than {SOUND_DBFS:g} dBFS",
            )
        share = part.num_full_scale / part.num_samples
        if share > MAX_FULL_SCALE_SHARE:
            yield row.finding("clipped", f"{prefix}{share:.2%} of the samples are at full scale")
    if row.facts is not None:
        pauses = sum(row.utterance.pauses_seconds)
        seconds = sum(part.duration_seconds for part in row.facts) + pauses
        given = row.utterance.duration_seconds
        tolerance = max(DURATION_TOLERANCE_SECONDS, DURATION_TOLERANCE_SHARE * seconds)
        if abs(given - seconds) > tolerance:
            yield row.finding(
                "duration_off",
                f"the manifest says {given:.2f} s, the audio lasts {seconds:.2f} s",
            )


def transcript_findings(row: Row, alphabet: Alphabet) -> Iterator[Finding]:
    """Yields what is wrong with the text: transcript_empty, unknown_characters.

    Characters outside an alphabet that writes them as U+FFFD are not wrong.
    """
    if not alphabet.normalize(row.utterance.transcript):
        yield row.finding("transcript_empty", "the transcript holds no characters")
    unknown = alphabet.unknown_characters(row.utterance.transcript)
    if unknown and not alphabet.writes_unknown:
        yield row.finding("unknown_characters", list_characters(unknown), characters=unknown)


def fit_findings(
    row: Row, alphabet: Alphabet, feature_config: "FeatureConfig", frame_stride: int
) -> Iterator[Finding]:
    """Yields whether text and recording fit: too_long_for_frames, implausible_rate.

    CTC needs an output frame for each label and one more between equal neighbours; a label may
    stand for a pair of characters. Characters outside the alphabet are left out of that count,
    unless it writes them as U+FFFD.
    """
    text = alphabet.normalize(row.utterance.transcript)
    if row.facts is None or not text:
        return
    unknown = alphabet.unknown_characters(text)
    is_counted = [alphabet.writes_unknown or c not in unknown for c in text]
    labels = alphabet.encode("".join(itertools.compress(text, is_counted)))
    num_repeats = sum(a == b for a, b in itertools.pairwise(labels))
    needed = len(labels) + num_repeats
    num_frames = _num_output_frames(row, feature_config, frame_stride)
    if needed > num_frames:
        yield row.finding(
            "too_long_for_frames",
            f"{needed} frames needed ({len(labels)} labels + {num_repeats} repeats), "
            f"{num_frames} there",
        )
    seconds = sum(part.duration_seconds for part in row.facts)
    num_letters = sum(_letters(c) for c in text)
    most = MAX_LETTERS_PER_SECOND * seconds + EXTRA_LETTERS
    least = MIN_LETTERS_PER_SECOND * (seconds - EXTRA_SECONDS)
    limit = f"at most {most:.0f}" if num_letters > most else f"at least {least:.0f}"
    if not least <= num_letters <= most:
        yield row.finding(
            "implausible_rate", f"{num_letters} letters in {seconds:.2f} s, plausible are {limit}"
        )


def list_characters(characters: collections.Counter[str], most: int = 20) -> str:
    """Returns "'.' x3, 'é' (U+00E9) x1", the most frequent characters first."""
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    listed = [f"{_name(character)} x{count}" for character, count in ranked[:most]]
    more = len(ranked) - most
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")


def _num_output_frames(row: Row, feature_config: "FeatureConfig", frame_stride: int) -> int:
    """Returns T' = (T - 1) // stride + 1 for the samples that `audio.load_utterance` gives."""
    rate = feature_config.sample_rate_hz
    num_samples = sum(part.num_samples_at(rate) for part in row.facts or ())
    num_samples += sum(round(pause * rate) for pause in row.utterance.pauses_seconds)
    num_frames = feature_config.num_frames(num_samples)
    return (num_frames - 1) // frame_stride + 1 if num_frames else 0


def _letters(character: str) -> int:
    """Returns how many Latin letters take as long to speak: 3 for a Chinese character."""
    if "\u3040" <= character <= "\u30ff":  # kana
        return 2
    chinese = "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"
    korean = "\uac00" <= character <= "\ud7a3"
    return 3 if chinese or korean else 1


def _name(character: str) -> str:
    code = f"U+{ord(character):04X}"
    if not character.isprintable():
        return code
    return f"'{character}'" if character.isascii() else f"'{character}' ({code})"
