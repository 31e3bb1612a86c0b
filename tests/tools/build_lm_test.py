import lzma
import pathlib
import subprocess
import sys

import pytest

from ds2_tf import alphabet
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding.language_model import LanguageModel
from tests import language_models
from tests.language_models import ARPA, BINARY, TEXT

CLONE = pathlib.Path(__file__).parents[2]


def run(tool, *arguments, stdin=b""):
    return subprocess.run(
        [sys.executable, "-m", f"tools.{tool}", *arguments],
        cwd=CLONE,
        input=stdin,
        capture_output=True,
        check=False,
    )


def test_a_model_is_built_and_measured(tmp_path):
    language_models.require_programs()
    alphabet.english().save(tmp_path / "alphabet.json")
    path = tmp_path / "lm.binary"
    built = run(
        "build_lm",
        "--text=-",
        f"--workdir={tmp_path}",
        "--order=4",
        "--prune=0 0 1",
        "--quantize_bits=8",
        "--vocabulary_limit=40",
        f"--output={path}",
        stdin=lzma.compress(TEXT.read_bytes().replace(b"\n", b"\r\n")),
    )
    assert built.returncode == 0, built.stderr
    assert built.stdout.decode().splitlines()[-1] == f"written: {path}, {path}.json"
    assert b"vocabulary  40 of 45 tokens" in built.stdout
    record = LanguageModel.load(path, alphabet.english()).info.build
    assert (record["prune"], record["quantize_bits"], record["type"]) == ([0, 0, 1], 8, "trie")
    assert record["texts"][0]["name"] == "standard input"
    measured = run("perplexity", f"--lm={path}", f"--text={TEXT}")
    assert measured.returncode == 0, measured.stderr
    lines = measured.stdout.decode().splitlines()
    assert lines[:2] == [
        "sentences                      30",
        "tokens (word)                  165",
    ]
    assert lines[2].startswith("outside the vocabulary         ")
    assert len(lines) == 5


def check(result, status, message):
    assert (result.returncode, result.stderr.decode().strip()) == (status, message)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--prune=0 one"], "--prune must be numbers, as '0 0 1', not '0 one'"),
        (["--order=9"], "--order must lie in [2, 6]. Received: 9"),
        ([], "--alphabet or --workdir is missing"),
        (["--alphabet=english", "--workdir=x"], "--alphabet and --workdir exclude each other"),
        (
            ["0", "1"],
            "unexpected argument '0'; name several texts as --text=a.txt,b.txt, and quote the list "
            'of --prune="0 0 1"',
        ),
    ],
)
def test_wrong_command_lines(tmp_path, flags, message):
    result = run("build_lm", f"--text={TEXT}", f"--output={tmp_path / 'lm'}", *flags)
    check(result, 2, f"error: {message}; see --help")


def test_a_missing_alphabet_is_an_error(tmp_path):
    result = run("build_lm", f"--text={TEXT}", f"--output={tmp_path}/lm", f"--workdir={tmp_path}")
    assert result.returncode == 1
    assert f"{tmp_path}/alphabet.json: cannot be read" in result.stderr.decode()


def test_perplexity_of_a_committed_model():
    language_models.require_library()
    for flags in ([f"--lm={BINARY}"], [f"--lm={ARPA}", "--alphabet=english"]):
        result = run("perplexity", f"--text={TEXT}", *flags)
        assert result.returncode == 0, result.stderr
        assert b"outside the vocabulary         1 (0.61%)" in result.stdout


def test_perplexity_needs_the_form_of_the_text(tmp_path):
    language_models.require_library()
    check(
        run("perplexity", f"--text={TEXT}", f"--lm={ARPA}"),
        2,
        f"error: {ARPA} has no JSON beside it, so --alphabet or --workdir must be given; see "
        "--help",
    )
    Alphabet(tuple(" ABC'"), case="upper").save(tmp_path / "alphabet.json")
    result = run("perplexity", f"--text={TEXT}", f"--lm={BINARY}", f"--workdir={tmp_path}")
    assert result.returncode == 1
    assert b"its text is in lower case, the alphabet's in upper case" in result.stderr


@pytest.mark.parametrize("tool", ["build_lm", "perplexity"])
def test_help(tool):
    result = run(tool, "--help")
    assert result.returncode == 0
    assert b"Examples:" in result.stdout
