"""Builds language models with KenLM: from text to a binary file and the JSON beside it."""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from ds2_tf import atomic
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import lm_arpa, lm_corpus, lm_info, lm_text, lm_tokens
from ds2_tf.decoding.lm_info import LanguageModelInfo
from ds2_tf.decoding.lm_tokens import Coverage
from ds2_tf.errors import UserError
from ds2_tf.native import kenlm
from ds2_tf.native.kenlm_source import MAX_ORDER

STRUCTURES = ("trie", "probing")

_MAX_BITS = 25
_MEMORY = re.compile(r"\d+(\.\d+)?[%bKMGT]")
_NUM_MARKERS = 3
_STEP = re.compile(r"=== (\d/5 .*) ===")


@dataclasses.dataclass(frozen=True)
class BuildOptions:
    """How a language model is built.

    Attributes:
      unit: what its tokens are (`lm_text`); None for words where spaces separate them, else
        characters.
      order: the longest n-grams.
      prune: of each order, n-grams that occur no more often than this are left out; the last number
        holds for the longer ones too. The first must be 0: limit the vocabulary instead.
      vocabulary_limit: how many of the most frequent tokens are kept, 0 for all.
      structure: "trie" (small) or "probing" (faster).
      quantize_bits: of probabilities and back-offs each, of a trie; 0 for 32.
      memory: for sorting: a number with %, K, M, G or T.
      encoding: of the texts.
      keep_punctuation: whether punctuation outside the alphabet makes a token unknown; else it
        counts as a space.
      temporary_folder: for intermediate files, of several times the text's size; None for the
        output's folder.
      arpa: where to keep the model as an ARPA file too, None for nowhere.

    Raises:
      ValueError: for values out of range.
    """

    unit: str | None = None
    order: int = 5
    prune: tuple[int, ...] = (0,)
    vocabulary_limit: int = 0
    structure: str = "trie"
    quantize_bits: int = 0
    memory: str = "1G"
    encoding: str = "utf-8"
    keep_punctuation: bool = False
    temporary_folder: str | None = None
    arpa: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in (None, *lm_text.UNITS):
            raise ValueError(
                f"unit must be one of {', '.join(lm_text.UNITS)}. Received: {self.unit!r}"
            )
        if not 2 <= self.order <= MAX_ORDER:
            raise ValueError(f"order must lie in [2, {MAX_ORDER}]. Received: {self.order}")
        shown = " ".join(map(str, self.prune))
        if not self.prune or self.prune[0] != 0 or list(self.prune) != sorted(self.prune):
            raise ValueError(
                f"prune must be numbers that begin with 0 and never fall. Received: {shown!r}"
            )
        if len(self.prune) > self.order:
            raise ValueError(
                f"prune has more numbers than the order {self.order}. Received: {shown!r}"
            )
        if self.vocabulary_limit < 0:
            raise ValueError(f"vocabulary_limit must be >= 0. Received: {self.vocabulary_limit}")
        if self.structure not in STRUCTURES:
            raise ValueError(
                f"type must be one of {', '.join(STRUCTURES)}. Received: {self.structure!r}"
            )
        if not 0 <= self.quantize_bits <= _MAX_BITS or self.quantize_bits == 1:
            raise ValueError(
                f"quantize_bits must be 0 or lie in [2, {_MAX_BITS}]. "
                f"Received: {self.quantize_bits}"
            )
        if self.quantize_bits and self.structure != "trie":
            raise ValueError(f"quantize_bits needs type trie. Received: {self.structure!r}")
        if not _MEMORY.fullmatch(self.memory):
            raise ValueError(
                f"memory must be a number with %, K, M, G or T. Received: {self.memory!r}"
            )


@dataclasses.dataclass(frozen=True)
class Built:
    """A finished language model.

    Attributes:
      path: of the binary file.
      info: what stands in the JSON beside it.
      coverage: what of the text the vocabulary holds.
      num_ngrams: by order.
    """

    path: pathlib.Path
    info: LanguageModelInfo
    coverage: Coverage
    num_ngrams: list[int]


def build(
    texts: Sequence[str],
    alphabet: Alphabet,
    output: str | os.PathLike,
    options: BuildOptions = BuildOptions(),
    progress: bool = True,
) -> Built:
    """Builds a language model; its files appear whole or not at all.

    Tokens that hold characters outside the alphabet, and those beyond the vocabulary's limit,
    become <unk>. Where a text is too small or too regular to estimate Kneser-Ney's discounts, the
    constants 0.5, 1 and 1.5 take their place, as the log says.

    Args:
      texts: files, plain or compressed, one sentence a line; "-" is standard input.
      alphabet: of the acoustic model that the language model is for.
      output: the binary file to write.
      options: how.
      progress: whether to show a progress bar.

    Raises:
      UserError: for texts that cannot be read or hold nothing, a unit that doesn't suit the
        alphabet, missing programs, too little memory or disk.
    """
    unit = options.unit or lm_text.default_unit(alphabet)
    if unit == "word" and not alphabet.spaced:
        raise UserError(
            "unit 'word': no spaces separate the words of this alphabet's text; use character or "
            "mixed"
        )
    output = pathlib.Path(os.path.abspath(output))
    lm_corpus.check_encoding(options.encoding)
    lm_corpus.num_bytes(texts)  # Fails when one is missing, before anything is compiled.
    atomic.check_folder(output.parent)
    lmplz, build_binary = kenlm.program("lmplz"), kenlm.program("build_binary")
    with _scratch(options.temporary_folder or output.parent, output.name) as scratch:
        text, arpa, binary = scratch / "text", scratch / "arpa", scratch / "binary"
        form = lm_text.TextForm(alphabet, options.keep_punctuation)
        coverage = lm_tokens.write(
            text,
            texts,
            form,
            unit,
            encoding=options.encoding,
            limit=options.vocabulary_limit,
            progress=progress,
        )
        is_fallback = _estimate(lmplz, text, arpa, coverage, options)
        text.unlink()
        if coverage.num_unknown:
            arpa = _with_unknown(arpa)
        with open(arpa, encoding="utf-8") as file:
            num_ngrams = lm_arpa.counts(file)
        _pack(build_binary, arpa, binary, options)
        info = LanguageModelInfo(
            unit,
            options.order,
            num_ngrams[0] - _NUM_MARKERS,
            alphabet.case,
            "NFC",
            alphabet.language,
            "".join(symbol for symbol in alphabet.symbols if len(symbol) == 1),
            lm_info.checksum(binary),
            _record(options, coverage, num_ngrams, is_fallback),
        )
        if options.arpa:
            _move(arpa, pathlib.Path(os.path.abspath(options.arpa)))
        _move(binary, output)
    info.save(output)
    return Built(output, info, coverage, num_ngrams)


def report(built: Built) -> str:
    """Returns what was built, in some lines for people."""
    coverage, info = built.coverage, built.info
    lines = [
        f"text        {coverage.num_sentences:,} sentences, {coverage.num_tokens:,} tokens "
        f"({info.unit})",
        f"vocabulary  {info.vocabulary_size:,} of {coverage.num_distinct:,} tokens, which cover "
        f"{1 - coverage.unknown_rate:.2%} of the text",
    ]
    if coverage.num_unwritable:
        examples = ", ".join(f"{c} ({n:,})" for c, n in coverage.outside[:10])
        lines.append(
            f"outside     {coverage.num_unwritable:,} tokens hold characters that the alphabet "
            f"lacks, and count as <unk>: {examples}"
        )
    if coverage.left_out:
        examples = ", ".join(f"{token} ({n:,})" for token, n in coverage.left_out)
        lines.append(f"left out    {examples}, ...")
    ngrams = ", ".join(f"{n:,}" for n in built.num_ngrams)
    lines.append(f"n-grams     {ngrams}")
    if info.build["discount_fallback"]:
        lines.append("discounts   0.5, 1, 1.5: the text is too small to estimate them")
    lines.append(f"size        {built.path.stat().st_size / 1e6:,.1f} MB")
    return "\n".join(lines)


@contextlib.contextmanager
def _scratch(folder: str | os.PathLike, name: str) -> Iterator[pathlib.Path]:
    """Makes a temporary folder, which vanishes in the end."""
    atomic.check_folder(folder)
    os.makedirs(folder, exist_ok=True)
    path = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=folder))
    try:
        yield path
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written ({error.strerror}); make room, or choose another folder "
            "with --temporary_folder"
        ) from error
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _estimate(
    lmplz: pathlib.Path,
    text: pathlib.Path,
    arpa: pathlib.Path,
    coverage: Coverage,
    options: BuildOptions,
) -> bool:
    """Writes the ARPA file; returns whether constant discounts had to be taken."""
    command = [str(lmplz), "--order", str(options.order), "--memory", options.memory]
    command += ["--temp_prefix", f"{text.parent}/", "--text", str(text), "--arpa", str(arpa)]
    command += ["--vocab_estimate", str(coverage.num_kept + 10)]
    command += ["--prune", *map(str, options.prune)]
    messages = _run(command)
    is_fallback = messages is not None and "--discount_fallback" in messages
    if is_fallback:
        logging.info(
            "the text is too small or regular for Kneser-Ney's discounts; constants are taken "
            "(lmplz --discount_fallback)"
        )
        messages = _run([*command, "--discount_fallback"])
    if messages is not None:
        raise UserError(f"lmplz: {_reason(messages)}; give it more memory (--memory), or less text")
    return is_fallback


def _pack(
    build_binary: pathlib.Path, arpa: pathlib.Path, binary: pathlib.Path, options: BuildOptions
) -> None:
    command = [str(build_binary), "-T", f"{arpa.parent}/", "-S", options.memory]
    if options.structure == "trie":
        command += ["-a", "255"]
    if options.quantize_bits:
        command += ["-q", str(options.quantize_bits), "-b", str(options.quantize_bits)]
    messages = _run([*command, options.structure, str(arpa), str(binary)])
    if messages is not None:
        raise UserError(
            f"build_binary: {_reason(messages)}; give it more memory (--memory), or prune more"
        )


def _run(command: Sequence[str]) -> str | None:
    """Runs a program of KenLM's; returns its messages when it fails, else None."""
    logging.debug("%s", " ".join(command))
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        messages = []
        try:
            for line in process.stderr:
                messages.append(line.decode(errors="replace"))
                if step := _STEP.search(messages[-1]):
                    logging.info("lmplz %s", step[1])
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return None
    if process.returncode < 0:
        messages.append(f"signal {-process.returncode} ended it")
    return "".join(messages)


def _reason(messages: str) -> str:
    """Returns what a program of KenLM's complains about, in one line."""
    lines = [
        line.strip()
        for line in messages.splitlines()
        if line.strip() and not line.startswith("===")
    ]
    thrown = [i for i, line in enumerate(lines) if "threw" in line]
    if thrown:
        lines = [lines[thrown[0]].rpartition("threw ")[2], *lines[thrown[0] + 1 :]]
    return " ".join(lines[-3:]).rstrip(".") or "it failed without a word"


def _with_unknown(arpa: pathlib.Path) -> pathlib.Path:
    path = arpa.with_suffix(".unk")
    with open(arpa, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as target:
        target.writelines(lm_arpa.with_unknown(file))
    arpa.unlink()
    return path


def _record(
    options: BuildOptions, coverage: Coverage, num_ngrams: list[int], is_fallback: bool
) -> dict[str, Any]:
    """Returns what stands in the JSON for readers."""
    return {
        "type": options.structure,
        "quantize_bits": options.quantize_bits,
        "prune": list(options.prune),
        "vocabulary_limit": options.vocabulary_limit,
        "keep_punctuation": options.keep_punctuation,
        "discount_fallback": is_fallback,
        "num_ngrams": num_ngrams,
        "num_sentences": coverage.num_sentences,
        "num_tokens": coverage.num_tokens,
        "num_distinct_tokens": coverage.num_distinct,
        "unknown_rate": round(coverage.unknown_rate, 6),
        "texts": [dataclasses.asdict(source) for source in coverage.sources],
    }


def _move(path: pathlib.Path, target: pathlib.Path) -> None:
    """Puts a finished file into its place, from another file system too, in one step."""
    with open(path, "rb") as file, atomic.open_for_write(target, "wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
    path.unlink()
