// Packs the operands of a product. No include guard: see for_each_instruction_set.h.
//
// `Format` says how floats become words: `kValues` of them make one, `Along` takes them from one
// row of memory, `Across` one from each of `kValues` rows. Both return a vector of words and put
// zeros where there are no values.

#include <algorithm>
#include <utility>

#if DS2_LANES == 16
#include <immintrin.h>
#endif

#include "ds2_tf/native/gemm_kernels.h"
#include "ds2_tf/native/vector_inl.h"

namespace ds2 {
namespace DS2_SET {

// Operands whose memory lies the other way are turned square by square.
struct Square {
  Vector rows[kLanes];
};

DS2_INLINE void Transpose(Square* square) {
#if DS2_LANES == 16
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = (__m512)square->rows[i];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  // Afterwards r[4 g + c] has column 4 l + c of rows 4 g ... 4 g + 3 in its quarter l.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const __m512d a = _mm512_castps_pd(t[i + j]);
      const __m512d b = _mm512_castps_pd(t[i + j + 2]);
      r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 even0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
    const __m512 odd0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
    const __m512 even1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    const __m512 odd1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
    square->rows[c] = (Vector)_mm512_shuffle_f32x4(even0, even1, 0x88);
    square->rows[4 + c] = (Vector)_mm512_shuffle_f32x4(odd0, odd1, 0x88);
    square->rows[8 + c] = (Vector)_mm512_shuffle_f32x4(even0, even1, 0xdd);
    square->rows[12 + c] = (Vector)_mm512_shuffle_f32x4(odd0, odd1, 0xdd);
  }
#else
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const float value = square->rows[i][j];
      square->rows[i][j] = square->rows[j][i];
      square->rows[j][i] = value;
    }
  }
#endif
}

// Writes the corner of a square that belongs to the operand.
DS2_INLINE void StoreSquare(const Square& square, int64_t num_rows, int64_t num_columns,
                            uint32_t* to, int64_t stride) {
  if (num_rows >= kLanes && num_columns >= kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) Store(square.rows[i], to + i * stride);
    return;
  }
  for (int64_t i = 0; i < std::min<int64_t>(num_rows, kLanes); ++i) {
    StoreSome(square.rows[i], to + i * stride, num_columns);
  }
}

template <class Format>
DS2_TARGET void PackLeft(const Kernels& kernels, const Source& source, int64_t outer, int64_t depth,
                         uint32_t* words, int64_t stride) {
  const int64_t num_words = kernels.Words(depth);
  if (!source.depth_is_rows) {
    for (int64_t i = 0; i < outer; ++i) {
      const float* row = source.data + i * source.stride;
      for (int64_t w = 0; w < num_words; w += kLanes) {
        const int64_t k = w * Format::kValues;
        StoreSome(Format::Along(row + k, depth - k), words + i * stride + w, num_words - w);
      }
    }
    return;
  }
  // In strips: long enough stretches of memory's rows for the processor to fetch ahead, few enough
  // rows of the packed operand to stay in the first-level cache.
  constexpr int64_t kStrip = 128;
  for (int64_t strip = 0; strip < outer; strip += kStrip) {
    const int64_t end = std::min(outer, strip + kStrip);
    for (int64_t w = 0; w < num_words; w += kLanes) {
      for (int64_t i = strip; i < end; i += kLanes) {
        Square square;
#pragma GCC unroll 16
        for (int j = 0; j < kLanes; ++j) {
          const int64_t k = (w + j) * Format::kValues;
          square.rows[j] = Format::Across(source.data + k * source.stride + i, source.stride,
                                          depth - k, outer - i);
        }
        Transpose(&square);
        StoreSquare(square, outer - i, num_words - w, words + i * stride + w, stride);
      }
    }
  }
}

template <class Format>
DS2_TARGET void PackPanel(const Kernels& kernels, const Source& source, int64_t outer,
                          int64_t depth, uint32_t* panel) {
  const int64_t num_words = kernels.Words(depth);
  const int64_t columns = kernels.columns;
  if (source.depth_is_rows) {
    for (int64_t w = 0; w < num_words; ++w) {
      const int64_t k = w * Format::kValues;
      for (int64_t j = 0; j < columns; j += kLanes) {
        Store(Format::Across(source.data + k * source.stride + j, source.stride, depth - k,
                             outer - j),
              panel + w * columns + j);
      }
    }
    return;
  }
  for (int64_t j = 0; j < columns; j += kLanes) {
    for (int64_t w = 0; w < num_words; w += kLanes) {
      const int64_t k = w * Format::kValues;
      Square square;
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        square.rows[i] =
            Format::Along(source.data + (j + i) * source.stride + k, j + i < outer ? depth - k : 0);
      }
      Transpose(&square);
      StoreSquare(square, num_words - w, kLanes, panel + w * columns + j, columns);
    }
  }
}

template <class Format>
DS2_TARGET void PackRight(const Kernels& kernels, const Source& source, int64_t outer,
                          int64_t depth, uint32_t* words) {
  const int64_t panel_words = kernels.Words(depth) * kernels.columns;
  for (int64_t j = 0; j < outer; j += kernels.columns) {
    Source panel = source;
    panel.data += source.depth_is_rows ? j : j * source.stride;
    PackPanel<Format>(kernels, panel, std::min<int64_t>(kernels.columns, outer - j), depth,
                      words + j / kernels.columns * panel_words);
  }
}

}  // namespace DS2_SET
}  // namespace ds2
