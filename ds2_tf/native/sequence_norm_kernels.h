// Batch normalisation of some rows of channels in a row, for each instruction set.

#ifndef DS2_TF_NATIVE_SEQUENCE_NORM_KERNELS_H_
#define DS2_TF_NATIVE_SEQUENCE_NORM_KERNELS_H_

#include <cstdint>

#include "ds2_tf/native/instruction_set.h"
#include "ds2_tf/native/sequence_norm.h"

namespace ds2 {

// x, y, by_y and by_x are [rows, channels], all others [channels].
template <class T>
struct NormKernels {
  // Mean, and sum of the squared deviations from it.
  void (*moments)(int64_t rows, int64_t channels, const T* x, float* mean, float* squares);
  void (*apply)(int64_t rows, int64_t channels, const Affine& affine, const T* x, T* y);
  void (*sums)(int64_t rows, int64_t channels, const Affine& affine, const T* x, const T* by_y,
               const float* centre, float* sum, float* centred_sum);
  void (*gradient)(int64_t rows, int64_t channels, const Affine& affine, const T* x, const T* by_y,
                   const float* factor, const float* offset, T* by_x);
};

// Returns the kernels with the instructions of `set`, which the processor must have.
template <class T>
NormKernels<T> FindNormKernels(InstructionSet set);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_SEQUENCE_NORM_KERNELS_H_
