"""Measures how well a language model predicts a text, and what its vocabulary lacks.

The text, one sentence a line, plain or compressed, is brought into the form of the alphabet that
the model was built for, as by tools.build_lm; a model without a JSON beside it needs --alphabet or
--workdir. The ends of sentences are predicted too.

Examples:
  python -m tools.perplexity --lm=lm.binary --text=held_out.txt
  python -m tools.perplexity --lm=old.arpa --alphabet=english --text=held_out.txt.gz
"""

from absl import flags

from ds2_tf.bin import alphabet_flags, program

_LM = flags.DEFINE_string("lm", None, "The language model: a binary or ARPA file.", required=True)
_TEXT = flags.DEFINE_list("text", None, "Text files; - is standard input.", required=True)
_UNIT = flags.DEFINE_string("unit", None, "What a model without JSON has for tokens.")
_ENCODING = flags.DEFINE_string("encoding", "utf-8", "Of the text.")
_KEEP = flags.DEFINE_bool(
    "keep_punctuation", False, "Punctuation outside the alphabet makes its word unknown."
)
flags.adopt_module_key_flags(alphabet_flags)


def main(arguments: list[str]) -> None:
    """Measures and prints."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    from ds2_tf.decoding import lm_text, lm_tokens
    from ds2_tf.decoding.language_model import LanguageModel

    if _UNIT.value not in (None, *lm_text.UNITS):
        raise program.UsageError(f"--unit must be one of {', '.join(lm_text.UNITS)}")
    alphabet = alphabet_flags.read()
    model = LanguageModel.load(_LM.value, alphabet, _UNIT.value)
    alphabet = alphabet or model.info.alphabet()
    if alphabet is None:
        raise program.UsageError(
            f"{_LM.value} has no JSON beside it, so --alphabet or --workdir must be given"
        )
    form = lm_text.TextForm(alphabet, _KEEP.value)
    texts = [text.strip() for text in _TEXT.value]
    result = model.perplexity(lm_tokens.sentences(texts, form, _ENCODING.value))
    print(f"sentences                      {result.sentences:,}")
    print(f"tokens ({model.info.unit})".ljust(31) + f"{result.tokens:,}")
    print(f"outside the vocabulary         {result.unknown:,} ({result.unknown_rate:.2%})")
    print(f"perplexity                     {result.perplexity:,.2f}")
    print(f"perplexity without the unknown {result.known_perplexity:,.2f}")


if __name__ == "__main__":
    program.run(main)
