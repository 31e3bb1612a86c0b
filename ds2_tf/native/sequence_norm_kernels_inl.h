// No include guard: see for_each_instruction_set.h.

#include "ds2_tf/native/sequence_norm_kernels.h"
#include "ds2_tf/native/vector_inl.h"

namespace ds2 {
namespace DS2_SET {
namespace {

constexpr float kClip = 20.0f;

using Halves __attribute__((vector_size(2 * DS2_LANES))) = uint16_t;

DS2_INLINE Vector Read(const float* from, int64_t count) { return LoadSome(from, count); }

DS2_INLINE Vector Read(const Bfloat16* from, int64_t count) {
  Halves halves = {};
  if (count >= kLanes) {
    std::memcpy(&halves, from, sizeof(halves));
  } else {
    std::memcpy(&halves, from, count * sizeof(Bfloat16));
  }
  const Integers bits = __builtin_convertvector(halves, Integers) << 16;
  Vector x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

DS2_INLINE void Write(const Vector& x, float* to, int64_t count) { StoreSome(x, to, count); }

DS2_INLINE void Write(const Vector& x, Bfloat16* to, int64_t count) {
  const Vector rounded = RoundToBfloat16(x);
  Integers bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  const Halves halves = __builtin_convertvector(bits >> 16, Halves);
  std::memcpy(to, &halves, count >= kLanes ? sizeof(halves) : count * sizeof(Bfloat16));
}

// Vectors of channels in a row; the last may be cut short.
struct Columns {
  int64_t first;
  int64_t count;
};

// The gradient of the argument z of the clipped ReLU; at both its corners the slope is 1.
DS2_INLINE Vector ThroughClip(const Affine& affine, const Vector& x, const Vector& by_y,
                              const Columns& columns) {
  if (!affine.clip) return by_y;
  const Vector z = x * LoadSome(affine.scale + columns.first, columns.count) +
                   LoadSome(affine.shift + columns.first, columns.count);
  return (z < 0.0f) | (z > kClip) ? Vector{} : by_y;
}

template <class T>
DS2_TARGET void RowMoments(int64_t rows, int64_t channels, const T* x, float* mean,
                           float* squares) {
  // Differences from the first row first, lest a mean far from 0 cost digits; squares is scratch.
  std::memset(squares, 0, channels * sizeof(float));
  for (int64_t row = 1; row < rows; ++row) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      const int64_t left = channels - i;
      const Vector difference = Read(x + row * channels + i, left) - Read(x + i, left);
      StoreSome(LoadSome(squares + i, left) + difference, squares + i, left);
    }
  }
  for (int64_t i = 0; i < channels; i += kLanes) {
    const int64_t left = channels - i;
    StoreSome(Read(x + i, left) + LoadSome(squares + i, left) / static_cast<float>(rows), mean + i, left);
  }
  std::memset(squares, 0, channels * sizeof(float));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      const int64_t left = channels - i;
      const Vector difference = Read(x + row * channels + i, left) - LoadSome(mean + i, left);
      StoreSome(LoadSome(squares + i, left) + difference * difference, squares + i, left);
    }
  }
}

template <class T>
DS2_TARGET void RowApply(int64_t rows, int64_t channels, const Affine& affine, const T* x, T* y) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      const int64_t left = channels - i;
      Vector z = Read(x + row * channels + i, left) * LoadSome(affine.scale + i, left) +
                 LoadSome(affine.shift + i, left);
      if (affine.clip) {  // NaN stays NaN, so that a run that diverges shows it.
        z = z < 0.0f ? Vector{} : z;
        z = z > kClip ? kClip - Vector{} : z;
      }
      Write(z, y + row * channels + i, left);
    }
  }
}

template <class T>
DS2_TARGET void RowSums(int64_t rows, int64_t channels, const Affine& affine, const T* x,
                        const T* by_y, const float* centre, float* sum, float* centred_sum) {
  std::memset(sum, 0, channels * sizeof(float));
  std::memset(centred_sum, 0, channels * sizeof(float));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      const int64_t left = channels - i;
      const Vector here = Read(x + row * channels + i, left);
      const Vector by_z =
          ThroughClip(affine, here, Read(by_y + row * channels + i, left), {i, left});
      const Vector centred = here - LoadSome(centre + i, left);
      StoreSome(LoadSome(sum + i, left) + by_z, sum + i, left);
      StoreSome(LoadSome(centred_sum + i, left) + by_z * centred, centred_sum + i, left);
    }
  }
}

template <class T>
DS2_TARGET void RowGradient(int64_t rows, int64_t channels, const Affine& affine, const T* x,
                            const T* by_y, const float* factor, const float* offset, T* by_x) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      const int64_t left = channels - i;
      const Vector here = Read(x + row * channels + i, left);
      const Vector by_z =
          ThroughClip(affine, here, Read(by_y + row * channels + i, left), {i, left});
      Write(by_z * LoadSome(affine.scale + i, left) + here * LoadSome(factor + i, left) +
                LoadSome(offset + i, left),
            by_x + row * channels + i, left);
    }
  }
}

}  // namespace

template <class T>
NormKernels<T> SetOfNormKernels() {
  return {RowMoments<T>, RowApply<T>, RowSums<T>, RowGradient<T>};
}

}  // namespace DS2_SET
}  // namespace ds2
