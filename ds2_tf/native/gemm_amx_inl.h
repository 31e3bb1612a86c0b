// Products of bfloat16 pairs in tiles of 16 rows by 16 words, over any type that has the eight
// tiles and their operations: the processor's, or an emulation that shows the same program to be
// right where there are none.
//
// Tiles: a sum is [16 rows][16 columns] floats, a left factor [16 rows][16 words], a right factor
// [16 words][16 columns].

// The file that includes this one defines DS2_TILE_TARGET, an attribute for every function.

#ifndef DS2_TF_NATIVE_GEMM_AMX_INL_H_
#define DS2_TF_NATIVE_GEMM_AMX_INL_H_

#include <algorithm>
#include <cstdint>

#include "ds2_tf/native/gemm_bfloat16.h"

namespace ds2 {

// Writes one tile of sums, of which `num_rows` and `num_columns` belong to c.
template <class Tiles, int kTile>
DS2_TILE_TARGET void StoreSums(int64_t num_rows, int64_t num_columns, float* c, int64_t c_stride,
                               bool accumulate) {
  if (num_rows <= 0 || num_columns <= 0) return;
  if (!accumulate && num_rows >= kTileSize && num_columns >= kTileSize) {
    Tiles::template Store<kTile>(c, c_stride);
    return;
  }
  float sums[kTileSize * kTileSize];
  Tiles::template Store<kTile>(sums, kTileSize);
  for (int64_t i = 0; i < std::min<int64_t>(kTileSize, num_rows); ++i) {
    for (int64_t j = 0; j < std::min<int64_t>(kTileSize, num_columns); ++j) {
      float& sum = c[i * c_stride + j];
      sum = (accumulate ? sum : 0) + sums[i * kTileSize + j];
    }
  }
}

// Up to 16 rows and a whole panel: four sums, for one alone would wait for its previous product.
template <class Tiles>
DS2_TILE_TARGET void MultiplyOneByFour(int64_t num_rows, int64_t num_columns, int64_t num_words,
                                       const uint32_t* left, int64_t left_stride,
                                       const uint32_t* panel, float* c, int64_t c_stride,
                                       bool accumulate) {
  Tiles::template Clear<0>();
  Tiles::template Clear<1>();
  Tiles::template Clear<2>();
  Tiles::template Clear<3>();
  for (int64_t w = 0; w < num_words; w += kTileSize, panel += kTileSize * kTileColumns) {
    Tiles::template Load<4>(left + w, left_stride);
    Tiles::template Load<5>(panel, kTileColumns);
    Tiles::template AddProduct<0, 4, 5>();
    Tiles::template Load<6>(panel + kTileSize, kTileColumns);
    Tiles::template AddProduct<1, 4, 6>();
    Tiles::template Load<7>(panel + 2 * kTileSize, kTileColumns);
    Tiles::template AddProduct<2, 4, 7>();
    Tiles::template Load<5>(panel + 3 * kTileSize, kTileColumns);
    Tiles::template AddProduct<3, 4, 5>();
  }
  StoreSums<Tiles, 0>(num_rows, num_columns, c, c_stride, accumulate);
  StoreSums<Tiles, 1>(num_rows, num_columns - kTileSize, c + kTileSize, c_stride, accumulate);
  StoreSums<Tiles, 2>(num_rows, num_columns - 2 * kTileSize, c + 2 * kTileSize, c_stride,
                      accumulate);
  StoreSums<Tiles, 3>(num_rows, num_columns - 3 * kTileSize, c + 3 * kTileSize, c_stride,
                      accumulate);
}

// 17 to 32 rows and half a panel: each tile loaded serves two products.
template <class Tiles>
DS2_TILE_TARGET void MultiplyTwoByTwo(int64_t num_rows, int64_t num_columns, int64_t num_words,
                                      const uint32_t* left, int64_t left_stride,
                                      const uint32_t* panel, float* c, int64_t c_stride,
                                      bool accumulate) {
  const uint32_t* lower = left + kTileSize * left_stride;
  Tiles::template Clear<0>();
  Tiles::template Clear<1>();
  Tiles::template Clear<2>();
  Tiles::template Clear<3>();
  for (int64_t w = 0; w < num_words; w += kTileSize, panel += kTileSize * kTileColumns) {
    Tiles::template Load<4>(left + w, left_stride);
    Tiles::template Load<6>(panel, kTileColumns);
    Tiles::template AddProduct<0, 4, 6>();
    Tiles::template Load<7>(panel + kTileSize, kTileColumns);
    Tiles::template AddProduct<1, 4, 7>();
    Tiles::template Load<5>(lower + w, left_stride);
    Tiles::template AddProduct<2, 5, 6>();
    Tiles::template AddProduct<3, 5, 7>();
  }
  float* lower_c = c + kTileSize * c_stride;
  StoreSums<Tiles, 0>(num_rows, num_columns, c, c_stride, accumulate);
  StoreSums<Tiles, 1>(num_rows, num_columns - kTileSize, c + kTileSize, c_stride, accumulate);
  StoreSums<Tiles, 2>(num_rows - kTileSize, num_columns, lower_c, c_stride, accumulate);
  StoreSums<Tiles, 3>(num_rows - kTileSize, num_columns - kTileSize, lower_c + kTileSize, c_stride,
                      accumulate);
}

// As `Kernels::multiply`. An element's sum runs over depth in order whichever way is taken.
template <class Tiles>
DS2_TILE_TARGET void MultiplyInTiles(int64_t num_rows, int64_t num_columns, int64_t num_words,
                                     const uint32_t* left, int64_t left_stride,
                                     const uint32_t* panel, float* c, int64_t c_stride,
                                     bool accumulate) {
  for (int64_t i = 0; i < num_rows; i += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, num_rows - i);
    const uint32_t* block = left + i * left_stride;
    float* to = c + i * c_stride;
    if (rows <= kTileSize) {
      MultiplyOneByFour<Tiles>(rows, num_columns, num_words, block, left_stride, panel, to,
                               c_stride, accumulate);
      continue;
    }
    for (int64_t j = 0; j < num_columns; j += 2 * kTileSize) {
      MultiplyTwoByTwo<Tiles>(rows, num_columns - j, num_words, block, left_stride, panel + j,
                              to + j, c_stride, accumulate);
    }
  }
}

}  // namespace ds2

#endif  // DS2_TF_NATIVE_GEMM_AMX_INL_H_
