"""Loads the library of the beam search, and says in ctypes what decoder_c_api.h says in C."""

import ctypes
import functools
import os
import pathlib

from ds2_tf.errors import UserError
from ds2_tf.native import compiling

ERROR_BYTES = 512
NO_TOKEN = 2**32 - 1
BOUNDARY = 0
"""Stands in hot phrases for the boundary between words."""

_FOLDER = compiling.FOLDER / "decoder"
_KENLM = "kenlm_adapter.cc"


class Words(ctypes.Structure):
    """`ds2_words`."""

    _fields_ = (
        ("num_words", ctypes.c_size_t),
        ("labels", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("tokens", ctypes.c_void_p),
    )


class Config(ctypes.Structure):
    """`ds2_decoder_config`."""

    _fields_ = (
        ("num_labels", ctypes.c_int32),
        ("space", ctypes.c_int32),
        ("kinds", ctypes.c_void_p),
        ("characters", ctypes.c_void_p),
        ("unit_tokens", ctypes.c_void_p),
        ("space_token", ctypes.c_uint32),
        ("lexicon", ctypes.c_void_p),
        ("language_model", ctypes.c_void_p),
        ("beam_width", ctypes.c_int32),
        ("cutoff_symbols", ctypes.c_int32),
        ("cutoff_probability", ctypes.c_double),
        ("score_threshold", ctypes.c_double),
        ("hot_space_share", ctypes.c_double),
        ("lm_weight", ctypes.c_double),
        ("word_bonus", ctypes.c_double),
        ("unknown_penalty", ctypes.c_double),
        ("closed", ctypes.c_int32),
    )


class HotPhrases(ctypes.Structure):
    """`ds2_hot_phrases`."""

    _fields_ = (
        ("num_phrases", ctypes.c_size_t),
        ("labels", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("boosts", ctypes.c_void_p),
        ("words", Words),
    )


class Symbol(ctypes.Structure):
    """`ds2_symbol`."""

    _fields_ = (
        ("label", ctypes.c_int32),
        ("log_probability", ctypes.c_float),
        ("word_mass", ctypes.c_float),
        ("reserved", ctypes.c_int32),
        ("first_frame", ctypes.c_int64),
        ("end_frame", ctypes.c_int64),
    )


def library(folder: str | os.PathLike | None = None) -> pathlib.Path:
    """Returns the library's path; compiles it if no fitting one is there: `compiling.library`."""
    sources = [path for path in sorted(_FOLDER.glob("*.cc")) if path.name != _KENLM]
    headers = sorted(_FOLDER.glob("*.h"))
    return compiling.library("ds2_decoder", sources, headers, folder=folder)


@functools.cache
def load() -> ctypes.CDLL:
    """Returns the library, compiled at its first use.

    Raises:
      UserError: when it cannot be compiled, with the reason and the remedy.
    """
    try:
        loaded = ctypes.CDLL(str(library()))
    except (compiling.BuildError, OSError) as error:
        raise UserError(
            f"beam search needs a library that is compiled once: {error}; or decode greedily"
        ) from error
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    message = (ctypes.c_char_p, size)
    for name, result, arguments in (
        ("decoder_new", pointer, (ctypes.POINTER(Config), *message)),
        ("decoder_free", None, (pointer,)),
        ("stream_new", pointer, (pointer, pointer, *message)),
        ("stream_free", None, (pointer,)),
        ("stream_step", ctypes.c_int32, (pointer, pointer, size, *message)),
        ("stream_reset", None, (pointer,)),
        ("stream_num_frames", ctypes.c_int64, (pointer,)),
        ("stream_num_prefixes", size, (pointer,)),
        ("stream_num_held_frames", size, (pointer,)),
        ("stream_is_empty", ctypes.c_int32, (pointer,)),
        ("stream_best", pointer, (pointer, size, ctypes.c_int32, size, *message)),
        ("stream_num_committed", size, (pointer,)),
        (
            "decode",
            ctypes.c_int32,
            (pointer, pointer, pointer, size, pointer, *(size,) * 3, pointer, *message),
        ),
        ("result_free", None, (pointer,)),
        ("result_size", size, (pointer,)),
        ("result_score", ctypes.c_double, (pointer, size)),
        ("result_language", ctypes.c_double, (pointer, size)),
        ("result_symbols", ctypes.POINTER(Symbol), (pointer, size, ctypes.POINTER(size))),
    ):
        function = getattr(loaded, f"ds2_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded
