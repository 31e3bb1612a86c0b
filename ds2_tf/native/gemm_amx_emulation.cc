// The products in tiles with emulated tiles, for tests on processors without: they need AVX512-BF16
// for packing only.

#if defined(__x86_64__)

#include <cstring>

#define DS2_TILE_TARGET
#include "ds2_tf/native/gemm_amx_inl.h"

namespace ds2 {
namespace {

struct EmulatedTiles {
  static thread_local uint32_t tiles[8][kTileSize][kTileSize];

  template <int kTile>
  static void Clear() {
    std::memset(tiles[kTile], 0, sizeof(tiles[kTile]));
  }

  template <int kTile>
  static void Load(const uint32_t* from, int64_t stride) {
    for (int64_t i = 0; i < kTileSize; ++i) {
      std::memcpy(tiles[kTile][i], from + i * stride, sizeof(tiles[kTile][i]));
    }
  }

  template <int kTile>
  static void Store(float* to, int64_t stride) {
    for (int64_t i = 0; i < kTileSize; ++i) {
      std::memcpy(to + i * stride, tiles[kTile][i], sizeof(tiles[kTile][i]));
    }
  }

  static float Value(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  template <int kSum, int kLeft, int kRight>
  static void AddProduct() {
    for (int64_t i = 0; i < kTileSize; ++i) {
      for (int64_t w = 0; w < kTileSize; ++w) {
        const uint32_t left = tiles[kLeft][i][w];
        for (int64_t j = 0; j < kTileSize; ++j) {
          const uint32_t right = tiles[kRight][w][j];
          float sum = Value(tiles[kSum][i][j]);
          sum += Value(left << 16) * Value(right << 16);
          sum += Value(left & 0xffff0000) * Value(right & 0xffff0000);
          std::memcpy(&tiles[kSum][i][j], &sum, sizeof(sum));
        }
      }
    }
  }
};

thread_local uint32_t EmulatedTiles::tiles[8][kTileSize][kTileSize];

void DoNothing() {}

}  // namespace

const Kernels& EmulatedAmxKernels() {
  static const Kernels kernels = TileKernels(InstructionSet::kAvx512Bf16,
                                             MultiplyInTiles<EmulatedTiles>, DoNothing, DoNothing);
  return kernels;
}

}  // namespace ds2

#endif
