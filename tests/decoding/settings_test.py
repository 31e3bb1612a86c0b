import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from ds2_tf.decoding import settings
from ds2_tf.decoding.beam_options import BeamSearchOptions
from ds2_tf.decoding.best_hypothesis import BestHypothesis
from ds2_tf.decoding.greedy_stream import GreedyDecoder
from ds2_tf.decoding.settings import DecoderSettings
from ds2_tf.errors import UserError
from tests.decoding.beams import ENGLISH, need_beam_search, write_arpa

TUNED = DecoderSettings(
    "beam",
    BeamSearchOptions(beam_width=64, lm_weight=0.7, confidence=(0.5, 1.5, -0.25)),
    tuning={"word_error_rate": 0.1},
)


def test_without_a_file_decoding_is_greedy(tmp_path):
    assert settings.load(tmp_path) == DecoderSettings()
    assert isinstance(settings.load(tmp_path).make(ENGLISH, 0.02), GreedyDecoder)


def test_what_is_saved_is_loaded_also_when_the_folder_has_moved(tmp_path):
    write_arpa(tmp_path / "run" / "lm" / "a.arpa", ["yes"])
    saved = TUNED.with_language_model(tmp_path / "run" / "lm" / "a.arpa")
    assert len(saved.sha256) == 64
    saved.save(tmp_path / "run")
    assert settings.load(tmp_path / "run") == saved
    shutil.move(tmp_path / "run", tmp_path / "moved")
    moved = str(tmp_path / "moved" / "lm" / "a.arpa")
    assert settings.load(tmp_path / "moved") == dataclasses.replace(saved, language_model=moved)
    saved.save(tmp_path / "other")  # Elsewhere the path is absolute.
    assert settings.load(tmp_path / "other").language_model == saved.language_model
    TUNED.save(tmp_path / "other")
    assert settings.load(tmp_path / "other") == TUNED


def test_makes_a_beam_search_with_its_language_model(tmp_path):
    need_beam_search()
    path = write_arpa(tmp_path / "a.arpa", ["yes", "no"])
    saved = dataclasses.replace(TUNED, decoder="beam").with_language_model(path)
    decoder = saved.make(ENGLISH, 0.02, {"ann": 2.0})
    assert isinstance(decoder, BestHypothesis)
    assert decoder.search.options == TUNED.options
    assert decoder.search.language_model.path == str(path)
    assert decoder.search.hot_words == {"ann": 2.0}
    assert decoder.decode(np.zeros([0, 0, 29], np.float32), np.zeros(0, int)) == []
    path.write_text(path.read_text() + "\n")
    expected = (
        f"{path}: is not the language model that decoder.json was tuned with; name it by --lm all "
        "the same, or tune again by tools.tune_decoder"
    )
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        saved.make(ENGLISH, 0.02)
    path.unlink()
    expected = f"{path}: there is no such file; name the language model by --lm"
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        saved.make(ENGLISH, 0.02)


def test_a_greedy_decoder_takes_no_words():
    for words in ({"hot_words": {"a": 1.0}}, {"allowed_words": []}):
        with pytest.raises(ValueError, match="a greedy decoder takes no words; use beam search"):
            DecoderSettings().make(ENGLISH, 0.02, **words)
    with pytest.raises(ValueError, match="decoder must be one of greedy, beam. Received: 'gready'"):
        DecoderSettings("gready")


def changed(*path, to):
    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = to

    return change


def removed(*path):
    def change(content):
        for key in path[:-1]:
            content = content[key]
        del content[path[-1]]

    return change


AGAIN = "correct it, or tune again by tools.tune_decoder"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed("options", "beam_widht", to=3),
            f"options.beam_widht is no key of it (is options.beam_width meant?); {AGAIN}",
        ),
        (changed("extra", to=3), f"extra is no key of it; {AGAIN}"),
        (removed("tuning"), f"tuning is missing; {AGAIN}"),
        (removed("decoder"), f"decoder is missing; {AGAIN}"),
        (
            changed("decoder", to="best"),
            f"decoder must be one of greedy, beam. Received: 'best'; {AGAIN}",
        ),
        (
            changed("options", "beam_width", to=0),
            f"options.beam_width must be >= 1. Received: 0; {AGAIN}",
        ),
        (
            changed("options", "beam_width", to=1.5),
            f"options.beam_width must be a whole number, not 1.5; {AGAIN}",
        ),
        (
            changed("options", "lm_weight", to="1"),
            f"options.lm_weight must be a number, not '1'; {AGAIN}",
        ),
        (
            changed("options", "closed", to=1),
            f"options.closed must be true or false, not 1; {AGAIN}",
        ),
        (
            changed("options", "confidence", to=[1, 2]),
            f"options.confidence must be three numbers or null; {AGAIN}",
        ),
        (changed("options", to=[]), f"options must be a JSON object; {AGAIN}"),
        (
            changed("language_model", to={"path": "a"}),
            f"language_model.sha256 is missing; {AGAIN}",
        ),
        (
            changed("language_model", to={"path": 3, "sha256": ""}),
            f"language_model.path must be text; {AGAIN}",
        ),
        (
            changed("format_version", to=2),
            "format_version is 2, not 1; tune again by tools.tune_decoder",
        ),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path, change, message):
    TUNED.save(tmp_path)
    path = tmp_path / "decoder.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"^{re.escape(f'{path}: {message}')}$"):
        settings.load(tmp_path)


def test_options_that_a_file_does_not_know_have_their_defaults(tmp_path):
    TUNED.save(tmp_path)
    path = tmp_path / "decoder.json"
    content = json.loads(path.read_text())
    del content["options"]["cutoff_symbols"], content["options"]["confidence"]
    path.write_text(json.dumps(content))
    options = dataclasses.replace(TUNED.options, confidence=None)
    assert settings.load(tmp_path) == dataclasses.replace(TUNED, options=options)


def test_a_file_that_is_no_json(tmp_path):
    (tmp_path / "decoder.json").write_text("{")
    with pytest.raises(UserError, match=rf"decoder.json: is not JSON \(.*\); {AGAIN}$"):
        settings.load(tmp_path)


_WITHOUT_COMPILER = """
from ds2_tf import alphabet
from ds2_tf.decoding.settings import DecoderSettings
from ds2_tf.errors import UserError
DecoderSettings().make(alphabet.english(), 0.02)
try:
    DecoderSettings("beam").make(alphabet.english(), 0.02)
except UserError as error:
    print(error)
import sys
assert "tensorflow" not in sys.modules
"""


def test_without_a_compiler_greedy_decoding_works_and_beam_search_says_what_it_needs(tmp_path):
    environment = {
        "PATH": "",
        "DS2_TF_CACHE": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_COMPILER],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.startswith("beam search needs a library that is compiled once: ")
    assert "apt install g++" in done.stdout
    assert done.stdout.endswith("; or decode greedily\n")
