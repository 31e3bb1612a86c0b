"""decoder.json: how the frames of a model become text, as tuning found it best."""

import dataclasses
import difflib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ds2_tf import atomic
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import lm_info
from ds2_tf.decoding.beam_options import BeamSearchOptions
from ds2_tf.decoding.decoder import Decoder
from ds2_tf.decoding.greedy_stream import GreedyDecoder
from ds2_tf.errors import UserError

FILE_NAME = "decoder.json"
DECODERS = ("greedy", "beam")

ALLOWED_WORDS_SCORE_THRESHOLD = 50.0
"""The least, in nats, where only given words are written: others that are said cost much there."""

_FORMAT_VERSION = 1
_KEYS = ("format_version", "decoder", "options", "language_model", "tuning")
_LANGUAGE_MODEL_KEYS = ("path", "sha256")
_AGAIN = "correct it, or tune again by tools.tune_decoder"


@dataclasses.dataclass(frozen=True)
class DecoderSettings:
    """Which decoder a model is used with, and how; the default is what a model has without.

    Attributes:
      decoder: "greedy" or "beam".
      options: of beam search.
      language_model: its file, "" for none.
      sha256: of that file, "" when any will do.
      tuning: how the options were found. For readers.

    Raises:
      ValueError: for another decoder.
    """

    decoder: str = "greedy"
    options: BeamSearchOptions = dataclasses.field(default_factory=BeamSearchOptions)
    language_model: str = ""
    sha256: str = ""
    tuning: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise ValueError(
                f"decoder must be one of {', '.join(DECODERS)}. Received: {self.decoder!r}"
            )

    def with_language_model(self, path: str | os.PathLike) -> "DecoderSettings":
        """Returns the same settings with a language model that they are bound to.

        Raises:
          UserError: when there is no such file.
        """
        path = os.path.abspath(path)
        return dataclasses.replace(self, language_model=path, sha256=_checksum(path))

    def make(
        self,
        alphabet: Alphabet,
        seconds_per_frame: float,
        hot_words: Mapping[str, float] | None = None,
        allowed_words: Sequence[str] | None = None,
    ) -> Decoder:
        """Makes the decoder.

        Args:
          alphabet: what the labels mean.
          seconds_per_frame: for times.
          hot_words: phrases and their boosts.
          allowed_words: nothing but these (and hot words) is written.

        Raises:
          UserError: when the language model is missing or is not the one that these settings were
            found with, or beam search cannot be compiled.
          ValueError: for words that the alphabet cannot write, or that a greedy decoder is given.
        """
        if self.decoder == "greedy":
            if hot_words or allowed_words is not None:
                raise ValueError("a greedy decoder takes no words; use beam search")
            return GreedyDecoder(alphabet, seconds_per_frame)
        from ds2_tf.decoding.beam_search import BeamSearchDecoder
        from ds2_tf.decoding.best_hypothesis import BestHypothesis
        from ds2_tf.decoding.language_model import LanguageModel

        model = None
        if self.language_model:
            if self.sha256 and _checksum(self.language_model) != self.sha256:
                raise UserError(
                    f"{self.language_model}: is not the language model that {FILE_NAME} was tuned "
                    "with; name it by --lm all the same, or tune again by tools.tune_decoder"
                )
            model = LanguageModel.load(self.language_model, alphabet)
        options = self.options
        if allowed_words is not None:
            depth = max(options.score_threshold, ALLOWED_WORDS_SCORE_THRESHOLD)
            options = dataclasses.replace(options, score_threshold=depth)
        search = BeamSearchDecoder(
            alphabet,
            options,
            model,
            seconds_per_frame=seconds_per_frame,
            hot_words=hot_words,
            allowed_words=allowed_words,
        )
        return BestHypothesis(search)

    def save(self, workdir: str | os.PathLike) -> None:
        """Writes decoder.json, whole or not at all.

        A language model below the workdir is named relative to it, so that both can be moved.
        """
        language_model = None
        if self.language_model:
            path = pathlib.Path(os.path.abspath(self.language_model))
            folder = pathlib.Path(os.path.abspath(workdir))
            if path.is_relative_to(folder):
                path = path.relative_to(folder)
            language_model = {"path": path.as_posix(), "sha256": self.sha256}
        content = {
            "format_version": _FORMAT_VERSION,
            "decoder": self.decoder,
            "options": dataclasses.asdict(self.options),
            "language_model": language_model,
            "tuning": self.tuning,
        }
        with atomic.open_for_write(pathlib.Path(workdir, FILE_NAME)) as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.write("\n")


def load(workdir: str | os.PathLike) -> DecoderSettings:
    """Returns what decoder.json says; without one, greedy decoding.

    Raises:
      UserError: naming the file and the key that is wrong.
    """
    path = pathlib.Path(workdir, FILE_NAME)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return DecoderSettings()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); make it readable") from error
    except ValueError as error:
        raise UserError(f"{path}: is not JSON ({error}); {_AGAIN}") from error
    _check_keys(path, "", content, _KEYS)
    if content["format_version"] != _FORMAT_VERSION:
        raise UserError(
            f"{path}: format_version is {content['format_version']!r}, not {_FORMAT_VERSION}; tune "
            "again by tools.tune_decoder"
        )
    language_model = content["language_model"]
    if language_model is not None:
        _check_keys(path, "language_model.", language_model, _LANGUAGE_MODEL_KEYS)
    else:
        language_model = {"path": "", "sha256": ""}
    file = language_model["path"]
    for key, value in language_model.items():
        if not isinstance(value, str):
            raise UserError(f"{path}: language_model.{key} must be text; {_AGAIN}")
    try:
        return DecoderSettings(
            content["decoder"],
            _options(path, content["options"]),
            os.path.abspath(pathlib.Path(workdir, file)) if file else "",
            language_model["sha256"],
            content["tuning"],
        )
    except ValueError as error:
        raise UserError(f"{path}: {error}; {_AGAIN}") from error


def _options(path: pathlib.Path, content: Any) -> BeamSearchOptions:
    fields = {field.name: field.default for field in dataclasses.fields(BeamSearchOptions)}
    # Options that came later than the file have their defaults.
    content = {**fields, **_object(path, "options.", content)}
    _check_keys(path, "options.", content, fields)
    if content["confidence"] is not None:
        try:
            a, b, c = map(float, content["confidence"])
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{path}: options.confidence must be three numbers or null; {_AGAIN}"
            ) from error
        content = {**content, "confidence": (a, b, c)}
    for name, default in fields.items():
        value = content[name]
        number = int if isinstance(default, int) else (int, float)
        is_truth = isinstance(default, bool)
        if name != "confidence" and (
            isinstance(value, bool) != is_truth or not isinstance(value, number)
        ):
            kind = (
                "true or false" if is_truth else "a whole number" if number is int else "a number"
            )
            raise UserError(f"{path}: options.{name} must be {kind}, not {value!r}; {_AGAIN}")
    try:
        return BeamSearchOptions(**content)
    except ValueError as error:
        raise ValueError(f"options.{error}") from error


def _check_keys(path: pathlib.Path, where: str, content: Any, keys: Iterable[str]) -> None:
    keys = tuple(keys)
    for key in _object(path, where, content):
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = f" (is {where}{near[0]} meant?)" if near else ""
            raise UserError(f"{path}: {where}{key} is no key of it{hint}; {_AGAIN}")
    for key in keys:
        if key not in content:
            raise UserError(f"{path}: {where}{key} is missing; {_AGAIN}")


def _object(path: pathlib.Path, where: str, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UserError(f"{path}: {where.rstrip('.') or 'it'} must be a JSON object; {_AGAIN}")
    return content


def _checksum(path: str) -> str:
    """Returns what the JSON beside a language model says, which is checked when it is opened."""
    if not os.path.isfile(path):
        raise UserError(f"{path}: there is no such file; name the language model by --lm")
    info = lm_info.load(path)
    return info.sha256 if info and info.sha256 else lm_info.checksum(path)
