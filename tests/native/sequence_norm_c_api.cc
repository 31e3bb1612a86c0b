// The kernels of batch normalisation for ctypes: plain C functions over plain arrays.

#include "ds2_tf/native/sequence_norm_kernels.h"

namespace {

template <class T>
void Run(int32_t set, int64_t rows, int64_t channels, const float* scale, const float* shift,
         bool clip, const T* x, const T* by_y, float* mean, float* squares, T* y, float* sum,
         float* centred_sum, T* by_x) {
  const auto kernels = ds2::FindNormKernels<T>(static_cast<ds2::InstructionSet>(set));
  const ds2::Affine affine = {scale, shift, clip};
  kernels.moments(rows, channels, x, mean, squares);
  kernels.apply(rows, channels, affine, x, y);
  kernels.sums(rows, channels, affine, x, by_y, mean, sum, centred_sum);
  kernels.gradient(rows, channels, affine, x, by_y, mean, squares, by_x);
}

}  // namespace

extern "C" {

int32_t ds2_best_instruction_set() { return static_cast<int32_t>(ds2::BestInstructionSet()); }

// The factor of the gradient is the mean, its offset the sum of squares.
void ds2_norm_float(int32_t set, int64_t rows, int64_t channels, const float* scale,
                    const float* shift, bool clip, const float* x, const float* by_y, float* mean,
                    float* squares, float* y, float* sum, float* centred_sum, float* by_x) {
  Run(set, rows, channels, scale, shift, clip, x, by_y, mean, squares, y, sum, centred_sum, by_x);
}

void ds2_norm_bfloat16(int32_t set, int64_t rows, int64_t channels, const float* scale,
                       const float* shift, bool clip, const ds2::Bfloat16* x,
                       const ds2::Bfloat16* by_y, float* mean, float* squares, ds2::Bfloat16* y,
                       float* sum, float* centred_sum, ds2::Bfloat16* by_x) {
  Run(set, rows, channels, scale, shift, clip, x, by_y, mean, squares, y, sum, centred_sum, by_x);
}

}  // extern "C"
