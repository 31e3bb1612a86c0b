"""The flags of programs that write text: which decoder, and how it searches."""

import dataclasses
from typing import TYPE_CHECKING, Any

from absl import flags

from ds2_tf.bin import program

if TYPE_CHECKING:
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.decoding.decoder import Decoder
    from ds2_tf.decoding.settings import DecoderSettings

_DECODER = flags.DEFINE_enum(
    "decoder",
    None,
    ["greedy", "beam"],
    "What makes text of the frames. By default what decoder.json in the workdir says (see "
    "tools.tune_decoder), beam if a flag of beam search is given, else greedy.",
)
_LM = flags.DEFINE_string(
    "lm", None, "Language model for beam search (tools.build_lm makes one); empty for none."
)
_HOT_WORDS = flags.DEFINE_string(
    "hot_words",
    None,
    "Phrases that are likelier than the language model knows, with boosts in nats: "
    "'name:5,other phrase:3', or @FILE with one a line.",
)
_ALLOWED_WORDS = flags.DEFINE_string(
    "allowed_words", None, "File of the only words that may be written, besides hot ones."
)
_OPTIONS = {
    "beam_width": flags.DEFINE_integer("beam_width", None, "Hypotheses that live on."),
    "lm_weight": flags.DEFINE_float("lm_weight", None, "Of the language model (alpha)."),
    "word_bonus": flags.DEFINE_float("word_bonus", None, "For each word (beta)."),
    "unknown_penalty": flags.DEFINE_float(
        "unknown_penalty", None, "For each word that the language model doesn't know, in nats."
    ),
    "score_threshold": flags.DEFINE_float(
        "score_threshold", None, "Nats below the best by which a hypothesis is given up."
    ),
    "cutoff_probability": flags.DEFINE_float(
        "cutoff_probability", None, "Share of a frame's probability that is searched."
    ),
    "cutoff_symbols": flags.DEFINE_integer(
        "cutoff_symbols", None, "Symbols of a frame that are searched at most."
    ),
    "closed": flags.DEFINE_bool(
        "closed_vocabulary", None, "Write only words of the language model, and hot ones."
    ),
}
_BEAM_FLAGS = (_LM, _HOT_WORDS, _ALLOWED_WORDS, *_OPTIONS.values())


def read(workdir: str) -> "DecoderSettings":
    """Returns what decoder.json in the workdir says, changed as the flags say."""
    from ds2_tf.decoding import settings

    found = settings.load(workdir)
    given = [flag.name for flag in _BEAM_FLAGS if flag.value is not None]
    if _DECODER.value == "greedy" and given:
        raise program.UsageError(f"--{given[0]} is for --decoder=beam")
    if _DECODER.value or given:
        found = dataclasses.replace(found, decoder=_DECODER.value or "beam")
    if _LM.value is not None:
        found = dataclasses.replace(found, language_model=_LM.value, sha256="")
    changed: dict[str, Any] = {
        name: flag.value for name, flag in _OPTIONS.items() if flag.value is not None
    }
    try:
        found = dataclasses.replace(found, options=dataclasses.replace(found.options, **changed))
    except ValueError as error:
        raise program.UsageError(f"--{error}") from error
    if found.options.closed and not _ALLOWED_WORDS.value and not found.language_model:
        raise program.UsageError("--closed_vocabulary needs --lm or --allowed_words")
    return found


def made_for(model: "AcousticModel", found: "DecoderSettings") -> "Decoder":
    """Makes the decoder of a model from its settings and the flags that name words."""
    from ds2_tf.decoding import word_lists

    alphabet = model.alphabet
    hot = word_lists.hot_words(_HOT_WORDS.value, alphabet) if _HOT_WORDS.value else None
    allowed = None
    if _ALLOWED_WORDS.value:
        allowed = word_lists.allowed_words(_ALLOWED_WORDS.value, alphabet)
    return found.make(alphabet, model.seconds_per_frame, hot, allowed)
