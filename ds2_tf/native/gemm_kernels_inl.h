// Products of floats. No include guard: see for_each_instruction_set.h.

#include "ds2_tf/native/gemm_pack_inl.h"

namespace ds2 {
namespace DS2_SET {

DS2_INLINE Vector Keep(const Vector& x) { return x; }

// Floats as they are, or rounded to bfloat16.
template <Vector (*kConvert)(const Vector&)>
struct FloatFormat {
  static constexpr int kValues = 1;

  DS2_INLINE void AlongDepth(const float* values, int64_t count, uint32_t* words,
                             int64_t num_words) {
    float* to = reinterpret_cast<float*>(words);
    count = std::min(count, num_words);
    for (int64_t i = 0; i < count; i += kLanes) {
      StoreSome(kConvert(LoadSome(values + i, count - i)), to + i, count - i);
    }
    if (count < num_words) std::fill(words + count, words + num_words, 0);
  }

  DS2_INLINE void AcrossDepth(const float* values, int64_t, int64_t, int64_t outer,
                              uint32_t* words) {
    AlongDepth(values, outer, words, outer);
  }
};

// 24 sums of the 32 registers, or 12 of the 16; the others hold the panel's row and a factor.
constexpr int kRows = kLanes == 16 ? 8 : 4;
constexpr int kVectors = 3;
constexpr int kColumns = kVectors * kLanes;

// Whatever the number of rows, an element's sum runs over depth in order: results don't depend on
// how rows are grouped.
template <int kNumRows>
DS2_TARGET void MultiplyTile(int64_t depth, const float* left, int64_t left_stride,
                             const float* panel, float* c, int64_t c_stride, bool accumulate) {
  Vector sums[kNumRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) sums[i][j] = Vector{};
  }
  for (int64_t k = 0; k < depth; ++k, panel += kColumns) {
    const Vector right[kVectors] = {Load(panel), Load(panel + kLanes), Load(panel + 2 * kLanes)};
#pragma GCC unroll 8
    for (int i = 0; i < kNumRows; ++i) {
      const float factor = left[i * left_stride + k];
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) sums[i][j] += factor * right[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_stride + j * kLanes;
      Store(accumulate ? Load(to) + sums[i][j] : sums[i][j], to);
    }
  }
}

DS2_INLINE void MultiplyRows(int64_t num_rows, int64_t depth, const float* left,
                             int64_t left_stride, const float* panel, float* c, int64_t c_stride,
                             bool accumulate) {
  switch (num_rows) {
#define DS2_CASE(n) \
  case n:           \
    return MultiplyTile<n>(depth, left, left_stride, panel, c, c_stride, accumulate);
    DS2_CASE(1)
    DS2_CASE(2)
    DS2_CASE(3)
    DS2_CASE(4)
    DS2_CASE(5)
    DS2_CASE(6)
    DS2_CASE(7)
    DS2_CASE(8)
#undef DS2_CASE
  }
}

DS2_TARGET static void Multiply(int64_t num_rows, int64_t num_columns, int64_t num_words,
                                const uint32_t* left_words, int64_t left_stride,
                                const uint32_t* panel_words, float* c, int64_t c_stride,
                                bool accumulate) {
  const float* left = reinterpret_cast<const float*>(left_words);
  const float* panel = reinterpret_cast<const float*>(panel_words);
  for (int64_t i = 0; i < num_rows; i += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, num_rows - i);
    if (num_columns == kColumns) {
      MultiplyRows(rows, num_words, left + i * left_stride, left_stride, panel, c + i * c_stride,
                   c_stride, accumulate);
      continue;
    }
    float tile[kRows * kColumns];
    MultiplyRows(rows, num_words, left + i * left_stride, left_stride, panel, tile, kColumns,
                 false);
    for (int64_t r = 0; r < rows; ++r) {
      float* to = c + (i + r) * c_stride;
      for (int64_t j = 0; j < num_columns; ++j) {
        to[j] = (accumulate ? to[j] : 0) + tile[r * kColumns + j];
      }
    }
  }
}

inline void DoNothing() {}

template <class Format>
constexpr Kernels kKernels = {
    DS2_INSTRUCTION_SET, kRows,    kColumns,  Format::kValues, 1, PackLeft<Format>,
    PackRight<Format>,   Multiply, DoNothing, DoNothing};

inline const Kernels& FloatKernels(Precision precision) {
  return precision == Precision::kFloat32 ? kKernels<FloatFormat<Keep>>
                                          : kKernels<FloatFormat<RoundToBfloat16>>;
}

}  // namespace DS2_SET
}  // namespace ds2
