"""Builds a language model from text: n-grams with modified Kneser-Ney smoothing, by KenLM.

The text holds one sentence a line, plain or compressed (gzip, xz, bzip2), and is brought into the
form of the model's transcripts: composed Unicode, the alphabet's case, single spaces. Punctuation
that the alphabet lacks counts as a space. Words with other characters outside it (12th, naïve)
become <unk>, and are reported.

Writes OUTPUT, a binary file of KenLM's, and OUTPUT.json: unit, order, size of the vocabulary,
alphabet, checksums. KenLM's programs lmplz and build_binary are the PATH's, or are compiled once,
in a minute or two; that takes g++ and Boost (Debian: apt install g++ libboost-program-options-dev
libboost-thread-dev libboost-system-dev).

Examples:
  python -m tools.build_lm --text=news.txt.gz,books.txt --workdir=runs/english --output=lm.binary
  python -m tools.build_lm --text=a.txt --alphabet=english --prune="0 0 1" --vocabulary_limit=200000
    --type=trie --quantize_bits=8 --output=small.binary
  zstdcat huge.zst | python -m tools.build_lm --text=- --workdir=run --memory=8G --output=lm.binary
  python -m tools.build_lm --text=zh.txt --encoding=gb18030 --workdir=runs/zh --output=zh.binary
"""

import re

from absl import flags, logging

from ds2_tf.bin import alphabet_flags, program

_TEXT = flags.DEFINE_list("text", None, "Text files; - is standard input.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "The binary file to write.", required=True)
_UNIT = flags.DEFINE_string(
    "unit",
    None,
    "What the tokens are: word, character, or mixed (ideographs and words). By default words where "
    "spaces separate them, else characters.",
)
_ORDER = flags.DEFINE_integer("order", 5, "The longest n-grams.")
_PRUNE = flags.DEFINE_string(
    "prune",
    "0",
    "For each order: n-grams that occur no more often than this are left out; the last number "
    "holds for the longer ones too. '0 0 1' leaves out trigrams and longer ones that occur once.",
)
_LIMIT = flags.DEFINE_integer(
    "vocabulary_limit", 0, "Keep so many of the most frequent tokens, 0 for all."
)
_TYPE = flags.DEFINE_string("type", "trie", "trie (small) or probing (faster, some times larger).")
_BITS = flags.DEFINE_integer("quantize_bits", 0, "Of probabilities in a trie, 8 say; 0 for all 32.")
_MEMORY = flags.DEFINE_string("memory", "1G", "For sorting n-grams; 50% means of all there is.")
_TEMPORARY = flags.DEFINE_string(
    "temporary_folder", None, "For intermediate files; by default the output's folder."
)
_ARPA = flags.DEFINE_string("arpa", None, "Write the model as an ARPA file too.")
_ENCODING = flags.DEFINE_string("encoding", "utf-8", "Of the text.")
_KEEP = flags.DEFINE_bool(
    "keep_punctuation", False, "Punctuation outside the alphabet makes its word unknown."
)
flags.adopt_module_key_flags(alphabet_flags)


def main(arguments: list[str]) -> None:
    """Builds the model."""
    if arguments:
        raise program.UsageError(
            f"unexpected argument {arguments[0]!r}; name several texts as --text=a.txt,b.txt, and "
            'quote the list of --prune="0 0 1"'
        )
    from ds2_tf.decoding import lm_build

    if not re.fullmatch(r"\d+([\s,]+\d+)*", _PRUNE.value.strip()):
        raise program.UsageError(f"--prune must be numbers, as '0 0 1', not {_PRUNE.value!r}")
    try:
        options = lm_build.BuildOptions(
            unit=_UNIT.value,
            order=_ORDER.value,
            prune=tuple(map(int, re.findall(r"\d+", _PRUNE.value))),
            vocabulary_limit=_LIMIT.value,
            structure=_TYPE.value,
            quantize_bits=_BITS.value,
            memory=_MEMORY.value,
            encoding=_ENCODING.value,
            keep_punctuation=_KEEP.value,
            temporary_folder=_TEMPORARY.value,
            arpa=_ARPA.value,
        )
    except ValueError as error:
        raise program.UsageError(f"--{error}") from error
    alphabet = alphabet_flags.read_required()
    logging.set_verbosity(logging.INFO)
    texts = [text.strip() for text in _TEXT.value]
    built = lm_build.build(texts, alphabet, _OUTPUT.value, options)
    print(lm_build.report(built))
    print(f"written: {built.path}, {built.path}.json")


if __name__ == "__main__":
    program.run(main)
