// Packs the operands of a product. No include guard: see for_each_instruction_set.h.
//
// `Format` says how floats become words: `kValues` of them make one, `AlongDepth` takes them from
// one row and `AcrossDepth` one from each of `kValues` rows.

#include <algorithm>
#include <utility>

#if DS2_LANES == 16
#include <immintrin.h>
#endif

#include "ds2_tf/native/gemm_kernels.h"
#include "ds2_tf/native/vector_inl.h"

namespace ds2 {
namespace DS2_SET {

// Operands whose memory lies the other way are turned in squares of this size.
constexpr int kSquare = kLanes;

struct Square {
  alignas(4 * kLanes) uint32_t rows[kSquare][kSquare];
};

DS2_INLINE void Transpose(Square* square) {
#if DS2_LANES == 16
  __m512 r[16], t[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_ps(square->rows[i]);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  // Afterwards r[4 g + c] has column 4 l + c of rows 4 g ... 4 g + 3 in its quarter l.
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const __m512d a = _mm512_castps_pd(t[i + j]);
      const __m512d b = _mm512_castps_pd(t[i + j + 2]);
      r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  }
  for (int c = 0; c < 4; ++c) {
    const __m512 even0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
    const __m512 odd0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
    const __m512 even1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    const __m512 odd1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
    _mm512_store_ps(square->rows[c], _mm512_shuffle_f32x4(even0, even1, 0x88));
    _mm512_store_ps(square->rows[4 + c], _mm512_shuffle_f32x4(odd0, odd1, 0x88));
    _mm512_store_ps(square->rows[8 + c], _mm512_shuffle_f32x4(even0, even1, 0xdd));
    _mm512_store_ps(square->rows[12 + c], _mm512_shuffle_f32x4(odd0, odd1, 0xdd));
  }
#else
  for (int i = 0; i < kSquare; ++i) {
    for (int j = 0; j < i; ++j) std::swap(square->rows[i][j], square->rows[j][i]);
  }
#endif
}

DS2_INLINE void StoreSquare(const Square& square, int64_t num_rows, int64_t num_columns,
                            uint32_t* to, int64_t stride) {
  for (int64_t i = 0; i < num_rows; ++i) {
    if (num_columns == kSquare) {
      std::copy_n(square.rows[i], kSquare, to + i * stride);
    } else {
      std::copy_n(square.rows[i], num_columns, to + i * stride);
    }
  }
}

template <class Format>
DS2_TARGET void PackLeft(const Kernels& kernels, const Source& source, int64_t outer, int64_t depth,
                         uint32_t* words, int64_t stride) {
  const int64_t num_words = kernels.Words(depth);
  if (!source.depth_is_rows) {
    for (int64_t i = 0; i < outer; ++i) {
      Format::AlongDepth(source.data + i * source.stride, depth, words + i * stride, num_words);
    }
    return;
  }
  // Along memory's rows, which the processor fetches ahead.
  for (int64_t w = 0; w < num_words; w += kSquare) {
    const int64_t width = std::min<int64_t>(kSquare, num_words - w);
    for (int64_t i = 0; i < outer; i += kSquare) {
      Square square = {};
      const int64_t height = std::min<int64_t>(kSquare, outer - i);
      for (int64_t j = 0; j < width; ++j) {
        const int64_t k = (w + j) * Format::kValues;
        if (k < depth) {
          Format::AcrossDepth(source.data + k * source.stride + i, source.stride, depth - k, height,
                              square.rows[j]);
        }
      }
      Transpose(&square);
      StoreSquare(square, height, width, words + i * stride + w, stride);
    }
  }
}

template <class Format>
DS2_TARGET void PackPanel(const Kernels& kernels, const Source& source, int64_t outer,
                          int64_t depth, uint32_t* panel) {
  const int64_t num_words = kernels.Words(depth);
  const int64_t columns = kernels.columns;
  if (outer < columns) std::fill_n(panel, num_words * columns, 0);
  if (source.depth_is_rows) {
    for (int64_t w = 0; w < num_words; ++w) {
      const int64_t k = w * Format::kValues;
      if (k < depth) {
        Format::AcrossDepth(source.data + k * source.stride, source.stride, depth - k, outer,
                            panel + w * columns);
      } else {
        std::fill_n(panel + w * columns, columns, 0);
      }
    }
    return;
  }
  for (int64_t j = 0; j < outer; j += kSquare) {
    const int64_t width = std::min<int64_t>(kSquare, outer - j);
    for (int64_t w = 0; w < num_words; w += kSquare) {
      Square square = {};
      const int64_t height = std::min<int64_t>(kSquare, num_words - w);
      const int64_t k = w * Format::kValues;
      for (int64_t i = 0; i < width; ++i) {
        Format::AlongDepth(source.data + (j + i) * source.stride + k,
                           std::max<int64_t>(0, depth - k), square.rows[i], height);
      }
      Transpose(&square);
      StoreSquare(square, height, width, panel + w * columns + j, columns);
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
