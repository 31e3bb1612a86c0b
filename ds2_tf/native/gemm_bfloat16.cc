#include "ds2_tf/native/gemm_bfloat16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>

#define DS2_SET avx512bf16
#define DS2_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))
#define DS2_LANES 16
#include "ds2_tf/native/gemm_pack_inl.h"

namespace ds2 {
namespace avx512bf16 {

struct PairFormat {
  static constexpr int kValues = 2;

  DS2_INLINE Vector Along(const float* values, int64_t count) {
    return (Vector)Narrow(Values(values, count), Values(values + kLanes, count - kLanes));
  }

  DS2_INLINE Vector Across(const float* values, int64_t stride, int64_t depth, int64_t outer) {
    // Interleaves the first and the second half.
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512 first = Values(values, depth > 0 ? outer : 0);
    const __m512 second = Values(values + stride, depth > 1 ? outer : 0);
    return (Vector)_mm512_permutexvar_epi16(order, Narrow(first, second));
  }

 private:
  DS2_INLINE __m512 Values(const float* from, int64_t count) {
    const __mmask16 mask = count >= kLanes ? 0xffff : (1u << std::max<int64_t>(count, 0)) - 1;
    return _mm512_maskz_loadu_ps(mask, from);
  }

  DS2_INLINE __m512i Narrow(__m512 first, __m512 second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
  }
};

constexpr int kRows = 8;
constexpr int kVectors = 3;
constexpr int kColumns = kVectors * kLanes;

// The columns of c that each vector of a panel has.
struct Columns {
  __mmask16 masks[kVectors];
};

template <int kNumRows, int kNumVectors>
DS2_TARGET void MultiplyTile(int64_t num_words, const uint32_t* left, int64_t left_stride,
                             const uint32_t* panel, float* c, int64_t c_stride,
                             const Columns& columns, bool accumulate) {
  __m512 sums[kNumRows][kNumVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kNumVectors; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  for (int64_t w = 0; w < num_words; ++w, panel += kColumns) {
    __m512i right[kNumVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kNumVectors; ++j) right[j] = _mm512_loadu_si512(panel + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kNumRows; ++i) {
      const __m512i pair = _mm512_set1_epi32(static_cast<int>(left[i * left_stride + w]));
#pragma GCC unroll 3
      for (int j = 0; j < kNumVectors; ++j) {
        sums[i][j] = _mm512_dpbf16_ps(sums[i][j], (__m512bh)pair, (__m512bh)right[j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kNumVectors; ++j) {
      float* to = c + i * c_stride + j * kLanes;
      __m512 sum = sums[i][j];
      if (accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(columns.masks[j], to));
      _mm512_mask_storeu_ps(to, columns.masks[j], sum);
    }
  }
}

using TileFunction = void (*)(int64_t num_words, const uint32_t* left, int64_t left_stride,
                              const uint32_t* panel, float* c, int64_t c_stride,
                              const Columns& columns, bool accumulate);

// By the numbers of rows and vectors, less 1.
#define DS2_ROW(n) {MultiplyTile<n, 1>, MultiplyTile<n, 2>, MultiplyTile<n, 3>}
constexpr TileFunction kTiles[kRows][kVectors] = {DS2_ROW(1), DS2_ROW(2), DS2_ROW(3), DS2_ROW(4),
                                                  DS2_ROW(5), DS2_ROW(6), DS2_ROW(7), DS2_ROW(8)};
#undef DS2_ROW

DS2_TARGET static void Multiply(int64_t num_rows, int64_t num_columns, int64_t num_words,
                                const uint32_t* left, int64_t left_stride, const uint32_t* panel,
                                float* c, int64_t c_stride, bool accumulate) {
  Columns columns;
  for (int j = 0; j < kVectors; ++j) {
    const int64_t count = std::clamp<int64_t>(num_columns - j * kLanes, 0, kLanes);
    columns.masks[j] = (1u << count) - 1;
  }
  const int64_t vectors = (num_columns + kLanes - 1) / kLanes;
  for (int64_t i = 0; i < num_rows; i += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, num_rows - i);
    kTiles[rows - 1][vectors - 1](num_words, left + i * left_stride, left_stride, panel,
                                  c + i * c_stride, c_stride, columns, accumulate);
  }
}

}  // namespace avx512bf16

namespace {
void DoNothing() {}
}  // namespace

const Kernels& Avx512Bf16Kernels() {
  using avx512bf16::PairFormat;
  static const Kernels kernels = {InstructionSet::kAvx512Bf16,
                                  avx512bf16::kRows,
                                  avx512bf16::kColumns,
                                  PairFormat::kValues,
                                  1,
                                  avx512bf16::PackLeft<PairFormat>,
                                  avx512bf16::PackRight<PairFormat>,
                                  avx512bf16::Multiply,
                                  DoNothing,
                                  DoNothing};
  return kernels;
}

Kernels TileKernels(InstructionSet set, decltype(Kernels::multiply) multiply,
                    decltype(Kernels::begin) begin, decltype(Kernels::end) end) {
  using avx512bf16::PairFormat;
  return {set,
          kTileRows,
          kTileColumns,
          PairFormat::kValues,
          kTileSize,
          avx512bf16::PackLeft<PairFormat>,
          avx512bf16::PackRight<PairFormat>,
          multiply,
          begin,
          end};
}

}  // namespace ds2

#endif
