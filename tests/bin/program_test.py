import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from ds2_tf.bin import ds2

SCRIPT = '''"""Does nothing much.

Examples:
  nothing --number=3
"""

import os
import signal
import sys

from absl import flags

from ds2_tf.bin import program
from ds2_tf.errors import UserError

_NUMBER = flags.DEFINE_integer("number", 1, "How many.", lower_bound=0)
_NAME = flags.DEFINE_string("name", None, "Of what.", required=True)


def main(arguments):
    match arguments:
        case ["user_error"]:
            raise UserError("a.jsonl:3: key 'text' is missing; add it to the line")
        case ["usage_error"]:
            raise program.UsageError("name at least two files")
        case ["interrupt"]:
            # Whoever runs the tests may ignore the signal, and so would its children.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            print("ready", flush=True)
            signal.pause()
        case ["flood"]:
            for _ in range(100_000):
                print("x" * 100)
        case ["drop"]:
            sys.stdin.read()
            print("the reader has left")
        case ["bug"]:
            raise ZeroDivisionError("a fault of ours")
        case ["status", number]:
            return int(number)
        case _:
            print(_NUMBER.value, _NAME.value, arguments)


if __name__ == "__main__":
    program.run(main)
'''


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "nothing.py"
    path.write_text(SCRIPT)
    return path


def run(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def run_ds2(*arguments):
    return run("-m", "ds2_tf.bin.ds2", *arguments)


def test_flags_and_arguments_in_any_order(script):
    output = run(script, "a.wav", "--number=2", "-", "--name", "x y", "--", "--b")
    assert output == (0, "2 x y ['a.wav', '-', '--b']\n", "")


@pytest.mark.parametrize("flag", ["--help", "--helpfull"])
def test_help_is_the_docstring_and_the_flags(script, flag):
    status, out, err = run(script, flag)
    assert (status, err) == (0, "")
    assert out.startswith("Does nothing much.\n\nExamples:\n  nothing --number=3\n")
    assert re.search(r"--number: How many\.\n +\(default: '1'\)", out)
    assert "--name: Of what." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--numbr=3"], "Unknown command line flag 'numbr'. Did you mean: number ?"),
        (
            ["--name=x", "--number=a"],
            "flag --number=a: invalid literal for int() with base 10: 'a'",
        ),
        ([], "--name is missing"),
        (["--name=x", "usage_error"], "name at least two files"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(script, arguments, message):
    status, out, err = run(script, *arguments)
    assert (status, out, err) == (2, "", f"error: {message}; see --help\n")


def test_a_user_error_is_told_in_one_line(script):
    message = "error: a.jsonl:3: key 'text' is missing; add it to the line\n"
    assert run(script, "--name=x", "user_error") == (1, "", message)


@pytest.mark.parametrize("status", [0, 5])
def test_the_status_is_what_main_returns(script, status):
    assert run(script, "--name=x", "status", status) == (status, "", "")


def test_a_fault_of_the_program_keeps_its_traceback(script):
    status, _, err = run(script, "--name=x", "bug")
    assert status == 1
    assert err.startswith("Traceback")
    assert err.endswith("ZeroDivisionError: a fault of ours\n")


def test_ctrl_c(script):
    command = [sys.executable, str(script), "--name=x", "interrupt"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "interrupted\n")


@pytest.mark.parametrize("argument", ["flood", "drop"])
def test_a_reader_that_leaves_early(script, argument):
    command = [sys.executable, str(script), "--name=x", argument]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, **pipes, text=True, env=buffered) as process:
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=20) == 1


def test_ds2_lists_its_verbs():
    verbs = ds2.verbs()
    assert {"check_data", "evaluate", "import_corpus", "train", "transcribe"} <= set(verbs)
    for arguments in ((), ("--help",), ("help",)):
        status, out, err = run_ds2(*arguments)
        assert (status, err) == (0, "")
        for verb, line in verbs.items():
            assert re.search(rf"^  {verb} +{re.escape(line)}$", out, re.MULTILINE)


def test_ds2_names_the_verbs_when_one_is_wrong():
    status, out, err = run_ds2("trian")
    assert (status, out) == (2, "")
    assert err == f"error: 'trian' is not a verb; choose one of {', '.join(ds2.verbs())}\n"


@pytest.mark.parametrize("verb", ds2.verbs())
def test_every_verb_has_help_with_examples_without_loading_tensorflow(verb):
    code = (
        "import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None; "
        f"sys.argv = ['ds2', '{verb}', '--help']; from ds2_tf.bin import ds2; ds2.main()"
    )
    status, out, err = run("-c", code)
    assert (status, err) == (0, "")
    assert out.startswith(ds2.verbs()[verb])
    assert re.search(rf"^Examples?:\n  .*{verb}", out, re.MULTILINE)
    assert re.search(rf"ds2_tf[./]bin[./]{verb}(\.py)?:\n  --", out)


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        (
            "--config.model.rnn_unit=16",
            "error: --config has no key 'rnn_unit' Did you mean \"rnn_units\" instead of",
        ),
        ("--config=configs/nope.py", "error: --config: "),
        (
            "--config=configs/table1.py:9-8",
            "error: flag --config=configs/table1.py:9-8: configs/table1.py:ROW or ROW:small, ROW "
            "one of 5-1, ",
        ),
    ],
)
def test_a_wrong_config_is_one_line(flag, error):
    clone = pathlib.Path(__file__).parents[2]
    command = ["-m", "ds2_tf.bin.train", "--config=configs/digits.py", "--workdir=w", flag]
    result = subprocess.run(
        [sys.executable, *command], cwd=clone, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith(error)
    assert len(result.stderr.splitlines()) == 1
