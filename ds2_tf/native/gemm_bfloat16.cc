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

  DS2_INLINE void AlongDepth(const float* values, int64_t count, uint32_t* words,
                             int64_t num_words) {
    for (int64_t w = 0; w < num_words; w += kLanes) {
      const int64_t left = count - 2 * w;
      const __m512i pairs =
          Narrow(Values(values + 2 * w, left), Values(values + 2 * w + kLanes, left - kLanes));
      StoreWords(pairs, words + w, num_words - w);
    }
  }

  DS2_INLINE void AcrossDepth(const float* values, int64_t stride, int64_t depth, int64_t outer,
                              uint32_t* words) {
    // Interleaves the first and the second half.
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (int64_t i = 0; i < outer; i += kLanes) {
      const __m512 first = Values(values + i, outer - i);
      const __m512 second =
          depth > 1 ? Values(values + stride + i, outer - i) : _mm512_setzero_ps();
      StoreWords(_mm512_permutexvar_epi16(order, Narrow(first, second)), words + i, outer - i);
    }
  }

 private:
  DS2_INLINE __mmask16 First(int64_t count) {
    return count >= kLanes ? 0xffff : (1u << std::max<int64_t>(count, 0)) - 1;
  }
  DS2_INLINE __m512 Values(const float* from, int64_t count) {
    return _mm512_maskz_loadu_ps(First(count), from);
  }
  DS2_INLINE void StoreWords(__m512i words, uint32_t* to, int64_t count) {
    _mm512_mask_storeu_epi32(to, First(count), words);
  }
  DS2_INLINE __m512i Narrow(__m512 first, __m512 second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
  }
};

constexpr int kRows = 8;
constexpr int kVectors = 3;
constexpr int kColumns = kVectors * kLanes;

template <int kNumRows>
DS2_TARGET void MultiplyTile(int64_t num_words, const uint32_t* left, int64_t left_stride,
                             const uint32_t* panel, float* c, int64_t c_stride, __mmask16 last[],
                             bool accumulate) {
  __m512 sums[kNumRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  for (int64_t w = 0; w < num_words; ++w, panel += kColumns) {
    const __m512i right[kVectors] = {_mm512_loadu_si512(panel), _mm512_loadu_si512(panel + kLanes),
                                     _mm512_loadu_si512(panel + 2 * kLanes)};
#pragma GCC unroll 8
    for (int i = 0; i < kNumRows; ++i) {
      const __m512i pair = _mm512_set1_epi32(static_cast<int>(left[i * left_stride + w]));
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) {
        sums[i][j] = _mm512_dpbf16_ps(sums[i][j], (__m512bh)pair, (__m512bh)right[j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kNumRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_stride + j * kLanes;
      __m512 sum = sums[i][j];
      if (accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(last[j], to));
      _mm512_mask_storeu_ps(to, last[j], sum);
    }
  }
}

DS2_TARGET static void Multiply(int64_t num_rows, int64_t num_columns, int64_t num_words,
                                const uint32_t* left, int64_t left_stride, const uint32_t* panel,
                                float* c, int64_t c_stride, bool accumulate) {
  __mmask16 columns[kVectors];
  for (int j = 0; j < kVectors; ++j) {
    const int64_t count = std::clamp<int64_t>(num_columns - j * kLanes, 0, kLanes);
    columns[j] = (1u << count) - 1;
  }
  for (int64_t i = 0; i < num_rows; i += kRows) {
    const uint32_t* from = left + i * left_stride;
    float* to = c + i * c_stride;
    switch (std::min<int64_t>(kRows, num_rows - i)) {
#define DS2_CASE(n)                                                                          \
  case n:                                                                                    \
    MultiplyTile<n>(num_words, from, left_stride, panel, to, c_stride, columns, accumulate); \
    break;
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
