"""A run's configuration: from an editable ConfigDict to frozen dataclasses, and to a file."""

import dataclasses
import difflib
import json
import math
import os
import typing
from typing import Any

import ml_collections

from ds2_tf import alphabet as alphabet_lib
from ds2_tf import alphabet_file, atomic
from ds2_tf.augment import AugmentConfig
from ds2_tf.batching import BatchConfig
from ds2_tf.errors import UserError
from ds2_tf.features import FeatureConfig
from ds2_tf.memory import MemoryConfig
from ds2_tf.model import POLICIES, ModelConfig
from ds2_tf.optimizer import OptimizerConfig
from ds2_tf.schedule import ScheduleConfig


@dataclasses.dataclass(frozen=True)
class AlphabetConfig:
    """The symbols to write.

    Attributes:
      symbols: one string of them all; empty takes the characters of `file`, or else those of the
        training transcripts.
      case: "lower", "upper" or "keep".
      language: a tag such as "en" or "zh".
      kind: "character", or "bigram" to add the pairs of these characters that the training
        transcripts contain (Deep Speech 2, section 3.5).
      file: a text file with a character a line, or an alphabet.json; see `alphabet_file.read`. One
        of kind "bigram" holds its pairs already and is taken as it is.
      coverage: below 1, the share of the training transcripts' characters that the most frequent
        ones together must cover; U+FFFD stands for the rare others.
    """

    symbols: str = " 'abcdefghijklmnopqrstuvwxyz"
    case: str = "lower"
    language: str = "en"
    kind: str = "character"
    file: str = ""
    coverage: float = 1.0

    def __post_init__(self) -> None:
        """Rejects unknown values, and settings that exclude each other."""
        if self.kind not in alphabet_lib.KINDS:
            kinds = ", ".join(alphabet_lib.KINDS)
            raise ValueError(f"kind must be one of {kinds}. Received: {self.kind!r}")
        if not 0 < self.coverage <= 1:
            raise ValueError(f"coverage must lie in (0, 1]. Received: {self.coverage}")
        if self.symbols and self.file:
            raise ValueError(
                "symbols and file exclude each other; set one of them to ''. "
                f"Received: {self.symbols!r} and {self.file!r}"
            )
        for name in ("symbols", "file"):
            if self.coverage < 1 and getattr(self, name):
                raise ValueError(
                    f"coverage below 1 chooses among the transcripts' characters; set {name} to "
                    f"''. Received: {self.coverage} and {getattr(self, name)!r}"
                )


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The recordings.

    Attributes:
      train: manifests to train on, separated by commas.
      dev: manifests that decide which weights are the best; empty keeps the last.
      allow: reasons of `ds2 check_data` that don't keep a row out of training.
      max_bad_share: share of recordings that may become unreadable during training.
      normalization_utterances: how many random training utterances to take the features' mean and
        variance from.
    """

    train: str = ""
    dev: str = ""
    allow: tuple[str, ...] = ()
    max_bad_share: float = 0.01
    normalization_utterances: int = 2000

    def __post_init__(self) -> None:
        """Rejects shares and numbers that mean nothing."""
        if not 0 <= self.max_bad_share <= 1:
            raise ValueError(f"max_bad_share must lie in [0, 1]. Received: {self.max_bad_share}")
        if self.normalization_utterances < 1:
            raise ValueError(
                f"normalization_utterances must be >= 1. Received: {self.normalization_utterances}"
            )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """The course of a run.

    Attributes:
      num_epochs: epochs in all (up to 20 in Deep Speech 2, section 6).
      seed: of weights, shuffling, dropout and augmentation.
      precision: of activations: "float32"; "bfloat16"; or "float16", with a loss scale that adapts.
        CTC, statistics and weights stay in float32, and so does the trained model when it is used.
      init_from: workdir of a trained model whose weights to begin with.
      freeze: layers that keep the weights they begin with, as patterns of their names: "conv_*".
      max_skipped_steps: how many steps in a row may be left out for a loss or gradient that is not
        a finite number; one more stops the training.
      checkpoint_steps: steps between two checkpoints; each epoch ends with one anyway.
      keep_checkpoints: how many of the last to keep.
      log_steps: steps between two rows of metrics.
      deterministic: bit-identical results from run to run on one device.
    """

    num_epochs: int = 20
    seed: int = 0
    precision: str = "float32"
    init_from: str = ""
    freeze: tuple[str, ...] = ()
    max_skipped_steps: int = 0
    checkpoint_steps: int = 500
    keep_checkpoints: int = 3
    log_steps: int = 20
    deterministic: bool = True

    def __post_init__(self) -> None:
        """Rejects numbers that would stop the run later."""
        for name in ("num_epochs", "checkpoint_steps", "keep_checkpoints", "log_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1. Received: {getattr(self, name)}")
        for name in ("seed", "max_skipped_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0. Received: {getattr(self, name)}")
        if self.precision not in POLICIES:
            raise ValueError(
                f"precision must be one of {(*POLICIES,)}. Received: {self.precision!r}"
            )


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """All settings of a run, one attribute for each section of the config file."""

    alphabet: AlphabetConfig
    features: FeatureConfig
    model: ModelConfig
    data: DataConfig
    batches: BatchConfig
    augment: AugmentConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    training: TrainingConfig
    memory: MemoryConfig


def resolve(config: ml_collections.ConfigDict) -> RunConfig:
    """Returns the settings of a config; what it leaves out takes its default.

    Raises:
      UserError: for a section, key or value that does not exist, and names the near one.
    """
    sections = {field.name: field.type for field in dataclasses.fields(RunConfig)}
    values = config.to_dict()
    _check_names(values, sections, "config")
    return RunConfig(
        **{name: _section(cls, name, values.get(name, {})) for name, cls in sections.items()}
    )


def with_defaults(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns a config with every key that `resolve` knows, those it leaves out at their defaults.

    So that any of them can be set on the command line. Unknown ones stay, for `resolve` to name.
    """
    filled = config.copy_and_resolve_references()
    with filled.unlocked():
        for section in dataclasses.fields(RunConfig):
            defaults = ml_collections.ConfigDict(dataclasses.asdict(section.type()))  # type: ignore[operator]
            given = filled.get(section.name, ml_collections.ConfigDict())
            if isinstance(given, ml_collections.ConfigDict):
                defaults.update(given)
                filled[section.name] = defaults
    return filled


def make_alphabet(config: AlphabetConfig, transcripts: list[str]) -> alphabet_lib.Alphabet:
    """Returns the alphabet that a config names, or the one of the training transcripts.

    Raises:
      UserError: for a file that is no alphabet, symbols that make none, or transcripts without any.
    """
    try:
        if config.file:
            named = alphabet_file.read(config.file, config.case, config.language)
            if named.kind == "bigram" and config.kind != "bigram":
                raise ValueError(
                    f"{config.file} is of kind 'bigram'; set kind to 'bigram'. "
                    f"Received: {config.kind!r}"
                )
        elif config.symbols:
            named = alphabet_lib.Alphabet(tuple(config.symbols), config.case, config.language)
        else:
            return alphabet_lib.from_transcripts(
                transcripts, config.case, config.language, config.kind, config.coverage
            )
        if config.kind == "bigram" and named.kind == "character":
            return alphabet_lib.with_pairs(named, transcripts)
        return named
    except ValueError as error:
        raise UserError(f"config.alphabet: {error}") from error


def save(config: RunConfig, path: str | os.PathLike) -> None:
    """Writes `config.json` with every setting of the run."""
    with atomic.open_for_write(path) as file:
        json.dump(dataclasses.asdict(config), file, indent=2, ensure_ascii=False)
        file.write("\n")


def load(path: str | os.PathLike) -> RunConfig:
    """Reads what `save` wrote.

    Raises:
      UserError: when the file is missing or is not such a file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: not found; --workdir must name the folder that `ds2 train` filled"
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); restore it from a copy") from error
    try:
        if not isinstance(values, dict):
            raise UserError("must be a JSON object of sections")
        return resolve(ml_collections.ConfigDict(values))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def differences(a: RunConfig, b: RunConfig) -> list[str]:
    """Returns the settings that differ, as "section.key: value of a, value of b"."""
    found = []
    for section in dataclasses.fields(RunConfig):
        ours, theirs = getattr(a, section.name), getattr(b, section.name)
        for key in dataclasses.fields(ours):
            x, y = getattr(ours, key.name), getattr(theirs, key.name)
            if x != y:
                found.append(f"{section.name}.{key.name}: {x!r}, {y!r}")
    return found


def _section(cls: Any, name: str, values: Any) -> Any:
    if not isinstance(values, dict):
        raise UserError(f"config.{name}: must be a section of keys. Received: {values!r}")
    kinds = {field.name: field.type for field in dataclasses.fields(cls)}
    _check_names(values, kinds, f"config.{name}")
    typed = {}
    for key, value in values.items():
        try:
            typed[key] = _typed(value, kinds[key])
        except TypeError as error:
            raise UserError(
                f"config.{name}.{key}: must be of type {error}. Received: {value!r}"
            ) from error
    try:
        return cls(**typed)
    except ValueError as error:
        raise UserError(f"config.{name}: {error}") from error


def _typed(value: Any, kind: Any) -> Any:
    """Returns the value with lists as tuples, and whole numbers as float where these are wanted."""
    if kind == tuple[str, ...] and isinstance(value, list | tuple) and len(value) == 1:
        value = str(value[0]).split(",")  # of the command line: --config.data.allow=a,b
    if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
        kinds = typing.get_args(kind)
        if kinds[-1] is Ellipsis:
            kinds = kinds[:1] * len(value)
        if len(kinds) == len(value):
            return tuple(_typed(v, k) for v, k in zip(value, kinds, strict=True))
    if isinstance(value, float) and math.isnan(value):
        raise TypeError("number, not NaN")
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise TypeError(kind.__name__ if isinstance(kind, type) else str(kind))


def _check_names(values: dict[str, Any], known: Any, where: str) -> None:
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise UserError(f"{where}: unknown key {name!r}; {hint}")
