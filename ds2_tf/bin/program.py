"""What every program shares: flags, help, exit statuses, errors told in one line."""

import signal
import sys
from collections.abc import Callable

from absl import app, flags

from ds2_tf.errors import UserError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT


class UsageError(Exception):
    """The command line cannot be understood; the message says why."""


def run(main: Callable[[list[str]], int | None]) -> None:
    """Parses the flags, calls `main` with the positional arguments and exits.

    Exit status: what `main` returns (None is 0); 1 after a `UserError`, which is printed as one
    line; 2 when the command line is wrong; 130 after Ctrl-C.
    """
    app.define_help_flags()
    try:
        arguments = flags.FLAGS(sys.argv)[1:]
        status = main(arguments)
    except (UsageError, flags.Error) as error:
        print(f"error: {error}; see --help", file=sys.stderr)
        status = EXIT_USAGE
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        status = EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        status = EXIT_FAILED
    sys.exit(status)
