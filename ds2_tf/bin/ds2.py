"""ds2: train, evaluate and use Deep Speech 2 recognisers.

Usage: ds2 VERB [--flag=value ...] [ARGUMENT ...]; `ds2 VERB --help` explains a verb.
"""

import ast
import pathlib
import runpy
import sys

from ds2_tf.bin import program

_NOT_VERBS = (
    *("adaptation_flag", "alphabet_flags", "config_flag", "decoder_flags"),
    *("__init__", "ds2", "program"),
)


def verbs() -> dict[str, str]:
    """Returns each verb with the first line of its program's docstring, sorted by name."""
    folder = pathlib.Path(__file__).parent
    found = {}
    for path in sorted(folder.glob("*.py")):
        if path.stem not in _NOT_VERBS:
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            found[path.stem] = docstring.partition("\n")[0]
    return found


def main() -> None:
    """Runs the program that the first argument names."""
    known = verbs()
    verb = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if verb in known:
        sys.argv = [f"ds2 {verb}", *sys.argv[2:]]
        runpy.run_module(f"ds2_tf.bin.{verb}", run_name="__main__", alter_sys=True)
        return
    asks_for_help = verb in ("-h", "--help", "--helpshort", "--helpfull", "help")
    page = (
        __doc__ + "\nVerbs:\n" + "".join(f"  {name:<14} {line}\n" for name, line in known.items())
    )
    if asks_for_help:
        print(page)
        return
    print(f"error: {verb!r} is not a verb; choose one of {', '.join(known)}", file=sys.stderr)
    sys.exit(program.EXIT_USAGE)


if __name__ == "__main__":
    main()
