"""Compile the native operations and the beam search ahead of time.

Without it they are compiled at their first use, which takes a minute or two once. It needs a C++
compiler: g++, clang++, or what the environment variable CXX names. --package puts the library
beside the sources, where it is found without compiler and cache: for images and wheels.

--cuda compiles the kernels for GPUs too (CTC has one), which is the default where TensorFlow sees a
GPU. It takes nvcc: $CUDA_HOME/bin/nvcc, the PATH's, or /usr/local/cuda/bin/nvcc. DS2_TF_CUDA_ARCHS
lists the architectures to compile for, as in 80,90; by default every generation that nvcc knows.
The library also serves machines without a GPU.

--kenlm compiles the library for language models too, which holds KenLM's own code: it is under the
LGPL, which an image or wheel that is passed on must respect.

Examples:
  ds2 build_ops
  ds2 build_ops --package
  ds2 build_ops --cuda --package
  ds2 build_ops --kenlm
  DS2_TF_CUDA_ARCHS=90 ds2 build_ops --cuda
  CXX=clang++-16 ds2 build_ops
"""

from absl import flags

from ds2_tf.bin import program
from ds2_tf.errors import UserError

_PACKAGE = flags.DEFINE_bool("package", False, "Put the library into the installed package.")
_CUDA = flags.DEFINE_bool(
    "cuda", None, "Compile for GPUs too, with nvcc; by default where TensorFlow sees a GPU."
)

_KENLM = flags.DEFINE_bool("kenlm", False, "Compile the library for language models too.")


def main(arguments: list[str]) -> int:
    """Compiles."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    program.load_tensorflow()
    import tensorflow as tf

    from ds2_tf.native import build, decoder_library, kenlm

    cuda = bool(tf.config.get_visible_devices("GPU")) if _CUDA.value is None else _CUDA.value
    folder = build.PREBUILT if _PACKAGE.value else build.cache_folder()
    try:
        paths = [build.build(folder, cuda), decoder_library.library(folder)]
        if _KENLM.value:
            paths.append(kenlm.library(folder))
    except build.BuildError as error:
        raise UserError(str(error)) from error
    print(*paths, sep="\n")
    return 0


if __name__ == "__main__":
    program.run(main)
