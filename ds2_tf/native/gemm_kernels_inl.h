// Products of floats. No include guard: see for_each_instruction_set.h.

#include "ds2_tf/native/gemm_pack_inl.h"

namespace ds2 {
namespace DS2_SET {

DS2_INLINE Vector Keep(const Vector& x) { return x; }

// Floats as they are, or rounded to bfloat16.
template <Vector (*kConvert)(const Vector&)>
struct FloatFormat {
  static constexpr int kValues = 1;

  DS2_INLINE Vector Along(const float* values, int64_t count) {
    return kConvert(LoadSome(values, count));
  }

  DS2_INLINE Vector Across(const float* values, int64_t, int64_t depth, int64_t outer) {
    return depth > 0 ? kConvert(LoadSome(values, outer)) : Vector{};
  }
};

// 24 sums of the 32 registers, or 12 of the 16; the others hold the panel's row and a factor.
constexpr int kRows = kLanes == 16 ? 8 : 4;
constexpr int kVectors = 3;
constexpr int kColumns = kVectors * kLanes;

// Whatever the number of rows, an element's sum runs over depth in order: results don't depend on
// how rows are grouped.
template <int kNumRows, int kNumVectors>
DS2_TARGET void MultiplyTile(int64_t depth, const float* left, int64_t left_stride,
                             const float* panel, float* c, int64_t c_stride, bool accumulate) {
  Vector sums[kNumRows][kNumVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kNumVectors; ++j) sums[i][j] = Vector{};
  }
  for (int64_t k = 0; k < depth; ++k, panel += kColumns) {
    Vector right[kNumVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kNumVectors; ++j) right[j] = Load(panel + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kNumRows; ++i) {
      const float factor = left[i * left_stride + k];
#pragma GCC unroll 3
      for (int j = 0; j < kNumVectors; ++j) sums[i][j] += factor * right[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kNumVectors; ++j) {
      float* to = c + i * c_stride + j * kLanes;
      Store(accumulate ? Load(to) + sums[i][j] : sums[i][j], to);
    }
  }
}

using TileFunction = void (*)(int64_t depth, const float* left, int64_t left_stride,
                              const float* panel, float* c, int64_t c_stride, bool accumulate);

// By the numbers of rows and vectors, less 1.
#define DS2_ROW(n) {MultiplyTile<n, 1>, MultiplyTile<n, 2>, MultiplyTile<n, 3>}
constexpr TileFunction kTiles[kRows][kVectors] = {
    DS2_ROW(1), DS2_ROW(2), DS2_ROW(3), DS2_ROW(4),
#if DS2_LANES == 16
    DS2_ROW(5), DS2_ROW(6), DS2_ROW(7), DS2_ROW(8),
#endif
};
#undef DS2_ROW

DS2_TARGET static void Multiply(int64_t num_rows, int64_t num_columns, int64_t num_words,
                                const uint32_t* left_words, int64_t left_stride,
                                const uint32_t* panel_words, float* c, int64_t c_stride,
                                bool accumulate) {
  const float* left = reinterpret_cast<const float*>(left_words);
  const float* panel = reinterpret_cast<const float*>(panel_words);
  const int64_t vectors = (num_columns + kLanes - 1) / kLanes;
  for (int64_t i = 0; i < num_rows; i += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, num_rows - i);
    const TileFunction multiply = kTiles[rows - 1][vectors - 1];
    const float* from = left + i * left_stride;
    float* to = c + i * c_stride;
    if (num_columns == vectors * kLanes) {
      multiply(num_words, from, left_stride, panel, to, c_stride, accumulate);
      continue;
    }
    float tile[kRows * kColumns];
    multiply(num_words, from, left_stride, panel, tile, kColumns, false);
    for (int64_t r = 0; r < rows; ++r, to += c_stride) {
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
