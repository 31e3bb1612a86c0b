"""What every program shares: flags, help, exit statuses, errors told in one line."""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator

from absl import app, flags

from ds2_tf.errors import UserError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

_MISSING_FLAG = re.compile(r"flag --(\w+)=None: Flag --\1 must have a value other than None\.")
_CONFIG_TRACEBACK = re.compile(r"Error whilst parsing config file:.*?\n\w+: ", re.DOTALL)


class UsageError(Exception):
    """The command line cannot be understood; the message says why."""


@contextlib.contextmanager
def _silenced_stderr() -> Iterator[None]:
    """Sends what native code writes to stderr to nowhere."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def load_tensorflow() -> None:
    """Imports TensorFlow without the lines about CPU features and missing GPUs that it prints.

    Programs call it when their command line is understood, so that `--help` and errors are instant.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _silenced_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()


def run(main: Callable[[list[str]], int | None]) -> None:
    """Parses the flags, calls `main` with the positional arguments and exits.

    Exit status: what `main` returns (None is 0); 1 after a `UserError`, which is printed as one
    line; 2 when the command line is wrong; 130 after Ctrl-C.
    """
    app.define_help_flags()
    try:
        status = main(_parse(sys.argv))
        sys.stdout.flush()
    except (UsageError, flags.Error) as error:
        message = _CONFIG_TRACEBACK.sub("", _MISSING_FLAG.sub(r"--\1 is missing", str(error)))
        print(f"error: {message.strip()}; see --help", file=sys.stderr)
        status = EXIT_USAGE
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        status = EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Who read our output, `head` say, has left: there is nobody to tell when the rest is lost.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_FAILED
    sys.exit(status)


def _parse(command_line: list[str]) -> list[str]:
    try:
        return flags.FLAGS(command_line)[1:]
    except SystemExit:  # absl has printed the help that was asked for, and exits with 1.
        sys.exit(0)
    except (AttributeError, KeyError) as error:  # of --config.section.key
        raise UsageError(f"--config has no key {in_one_line(error)}") from error


def in_one_line(error: BaseException) -> str:
    """Returns the innermost message of an error that wraps others."""
    while error.args and isinstance(error.args[0], BaseException):
        error = error.args[0]
    return " ".join(str(error.args[0] if len(error.args) == 1 else error).split())
