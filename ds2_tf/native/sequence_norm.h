// Batch normalisation of padded sequences, with the clipped ReLU: what is done to each value.

#ifndef DS2_TF_NATIVE_SEQUENCE_NORM_H_
#define DS2_TF_NATIVE_SEQUENCE_NORM_H_

#include <cstddef>
#include <cstdint>

#include "ds2_tf/native/half.h"
#include "ds2_tf/native/parallel.h"

namespace ds2 {

// Sequences [batch, frames, positions, channels] in float or Bfloat16, valid up to their lengths.
struct Sequences {
  int64_t batch;
  int64_t frames;
  int64_t positions;
  int64_t channels;
  const int32_t* lengths;  // [batch], in [0, frames]
};

// y = x scale + shift, or min(max(x scale + shift, 0), 20); scale and shift [channels].
struct Affine {
  const float* scale;
  const float* shift;
  bool clip;
};

// Bytes of workspace that `Moments` and `AffineSums` take.
size_t NormWorkspaceBytes(const Sequences& sequences);

// Mean and variance of each channel over the valid frames; 0 without any.
template <class T>
void Moments(const Sequences& sequences, const T* x, float* mean, float* variance, void* workspace,
             const Parallel& parallel);

// y, zero past each length.
template <class T>
void ApplyAffine(const Sequences& sequences, const Affine& affine, const T* x, T* y,
                 const Parallel& parallel);

// With g the gradient of the argument of the ReLU: sums of g, and of g (x - centre), [channels].
template <class T>
void AffineSums(const Sequences& sequences, const Affine& affine, const T* x, const T* by_y,
                const float* centre, float* sum, float* centred_sum, void* workspace,
                const Parallel& parallel);

// by_x = g scale + x factor + offset, zero past each length.
template <class T>
void AffineGradient(const Sequences& sequences, const Affine& affine, const T* x, const T* by_y,
                    const float* factor, const float* offset, T* by_x, const Parallel& parallel);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_SEQUENCE_NORM_H_
