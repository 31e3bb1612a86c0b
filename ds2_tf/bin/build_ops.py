"""Compile the native operations ahead of time.

Without it they are compiled at their first use, which takes a minute or two once. It needs a C++
compiler: g++, clang++, or what the environment variable CXX names. --package puts the library
beside the sources, where it is found without compiler and cache: for images and wheels.

Examples:
  ds2 build_ops
  ds2 build_ops --package
  CXX=clang++-16 ds2 build_ops
"""

from absl import flags

from ds2_tf.bin import program
from ds2_tf.errors import UserError

_PACKAGE = flags.DEFINE_bool("package", False, "Put the library into the installed package.")


def main(arguments: list[str]) -> int:
    """Compiles."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    program.load_tensorflow()
    from ds2_tf.native import build

    try:
        path = build.build(build.PREBUILT if _PACKAGE.value else build.cache_folder())
    except build.BuildError as error:
        raise UserError(str(error)) from error
    print(path)
    return 0


if __name__ == "__main__":
    program.run(main)
