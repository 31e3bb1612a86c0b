// The products of spectra, point by point. No include guard.

namespace ds2 {
namespace DS2_SET {
namespace {

using dft_conv::Planes;

// Tiles or rows, and vectors of columns, whose sums fit into the registers.
constexpr int kNumRows = 4;
constexpr int kNumVectors = kLanes == 16 ? 2 : 1;

constexpr int64_t kComplex = 2 * kLanes;  // floats of a complex vector

DS2_INLINE Complex LoadAt(const float* from) { return {Load(from), Load(from + kLanes)}; }

DS2_INLINE void StoreAt(float* to, const Complex& z) {
  Store(z.real, to);
  Store(z.imaginary, to + kLanes);
}

// Returns where a tile's lanes lie, counted from the point in block 0.
DS2_INLINE int64_t TileOffset(const Planes& planes, int64_t tile) {
  return tile / planes.tiles_per_block * planes.blocks_per_tile * kComplex +
         tile % planes.tiles_per_block * planes.group;
}

// sums += conj(scalar) * vectors, for kRows scalars and kVectors complex vectors.
template <int kRows, int kVectors>
DS2_INLINE void AddProducts(const float* const (&scalars)[kRows], int64_t lane,
                            const float* vectors, Complex (&sums)[kRows][kVectors]) {
  Complex b[kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) b[j] = LoadAt(vectors + j * kComplex);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const float real = scalars[i][lane], imaginary = scalars[i][lane + kLanes];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j].real += real * b[j].real;
      sums[i][j].imaginary += real * b[j].imaginary;
      sums[i][j].real += imaginary * b[j].imaginary;
      sums[i][j].imaginary -= imaginary * b[j].real;
    }
  }
}

// Products of kRows tiles from `tile` on and kVectors blocks of columns from `column` on.
template <int kRows, int kVectors>
DS2_INLINE void MultiplyPanel(const Planes& input_planes, const Planes& product_planes,
                              int64_t num_tiles, int64_t tile, int64_t column,
                              const float* inputs, const float* matrix, float* products) {
  const int64_t matrix_row = product_planes.blocks_per_tile * kComplex;
  const float* rows[kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    // Rows past the last tile compute it once more.
    const int64_t row = tile + i < num_tiles ? tile + i : num_tiles - 1;
    rows[i] = inputs + TileOffset(input_planes, row);
  }
  const float* b = matrix + column * kComplex;
  Complex sums[kRows][kVectors] = {};
  for (int64_t low = 0; low < input_planes.lanes; low += kLanes) {
    const int64_t count =
        input_planes.lanes - low < kLanes ? input_planes.lanes - low : int64_t{kLanes};
    for (int64_t lane = 0; lane < count; ++lane, b += matrix_row) {
      AddProducts<kRows, kVectors>(rows, lane, b, sums);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) rows[i] += kComplex;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    if (tile + i >= num_tiles) break;
    float* target = products + TileOffset(product_planes, tile + i) + column * kComplex;
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      // The sums are conj(inputs) * matrix.
      const Complex product = {sums[i][j].real, -sums[i][j].imaginary};
      if (product_planes.tiles_per_block == 1) {
        StoreAt(target + j * kComplex, product);
        continue;
      }
      for (int64_t lane = 0; lane < product_planes.group; ++lane) {
        target[lane] = product.real[lane];
        target[lane + kLanes] = product.imaginary[lane];
      }
    }
  }
}

DS2_TARGET void MultiplyPoint(const Planes& input_planes, const Planes& product_planes,
                              int64_t num_tiles, const float* inputs, const float* matrix,
                              float* products) {
  const int64_t num_columns = product_planes.blocks_per_tile;
  int64_t column = 0;
  for (; column + kNumVectors <= num_columns; column += kNumVectors) {
    for (int64_t tile = 0; tile < num_tiles; tile += kNumRows) {
      MultiplyPanel<kNumRows, kNumVectors>(input_planes, product_planes, num_tiles, tile, column,
                                           inputs, matrix, products);
    }
  }
  for (; column < num_columns; ++column) {
    for (int64_t tile = 0; tile < num_tiles; tile += kNumRows) {
      MultiplyPanel<kNumRows, 1>(input_planes, product_planes, num_tiles, tile, column, inputs,
                                 matrix, products);
    }
  }
}

// Sums of kRows rows from `row` on and kVectors blocks of columns from `column` on.
template <int kRows, int kVectors>
DS2_INLINE void AccumulatePanel(const Planes& input_planes, const Planes& gradient_planes,
                                int64_t num_tiles, int64_t row, int64_t column,
                                const float* inputs, const float* gradients, float* matrix) {
  const int64_t matrix_row = gradient_planes.blocks_per_tile * kComplex;
  float* target = matrix + row * matrix_row + column * kComplex;
  // Rows past the last compute it once more.
  const int64_t num_rows =
      input_planes.lanes - row < kRows ? input_planes.lanes - row : int64_t{kRows};
  Complex sums[kRows][kVectors];
  int64_t lanes[kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    lanes[i] = i < num_rows ? i : 0;
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] = LoadAt(target + lanes[i] * matrix_row + j * kComplex);
    }
  }
  const float* row_inputs = inputs + row / kLanes * kComplex + row % kLanes;
  for (int64_t tile = 0; tile < num_tiles; ++tile) {
    const float* source = row_inputs + TileOffset(input_planes, tile);
    const float* vectors = gradients + TileOffset(gradient_planes, tile) + column * kComplex;
    const float* scalars[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) scalars[i] = source + lanes[i];
    AddProducts<kRows, kVectors>(scalars, 0, vectors, sums);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    if (i >= num_rows) break;
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      StoreAt(target + i * matrix_row + j * kComplex, sums[i][j]);
    }
  }
}

DS2_TARGET void AccumulatePoint(const Planes& input_planes, const Planes& gradient_planes,
                                int64_t num_tiles, const float* inputs, const float* gradients,
                                float* matrix) {
  const int64_t num_columns = gradient_planes.blocks_per_tile;
  for (int64_t row = 0; row < input_planes.lanes; row += kNumRows) {
    int64_t column = 0;
    for (; column + kNumVectors <= num_columns; column += kNumVectors) {
      AccumulatePanel<kNumRows, kNumVectors>(input_planes, gradient_planes, num_tiles, row, column,
                                             inputs, gradients, matrix);
    }
    for (; column < num_columns; ++column) {
      AccumulatePanel<kNumRows, 1>(input_planes, gradient_planes, num_tiles, row, column, inputs,
                                   gradients, matrix);
    }
  }
}

}  // namespace
}  // namespace DS2_SET
}  // namespace ds2
