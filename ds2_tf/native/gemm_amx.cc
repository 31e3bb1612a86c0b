#include "ds2_tf/native/gemm_bfloat16.h"

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<amxbf16intrin.h>)
#define DS2_HAS_TILES
#endif
#endif

#if defined(DS2_HAS_TILES)

#include <immintrin.h>

#define DS2_TILE_TARGET __attribute__((target("amx-tile,amx-bf16")))
#include "ds2_tf/native/gemm_amx_inl.h"

namespace ds2 {
namespace {

#define DS2_TILE_INLINE DS2_TILE_TARGET static inline __attribute__((always_inline))

// The instructions name their tiles, so that each needs functions of its own.
template <int kTile>
struct Tile;

#define DS2_TILE(n)                                                                            \
  template <>                                                                                  \
  struct Tile<n> {                                                                             \
    DS2_TILE_INLINE void Clear() { _tile_zero(n); }                                            \
    DS2_TILE_INLINE void Load(const uint32_t* from, int64_t stride) {                          \
      _tile_loadd(n, from, 4 * stride);                                                        \
    }                                                                                          \
    DS2_TILE_INLINE void Store(float* to, int64_t stride) { _tile_stored(n, to, 4 * stride); } \
  };
DS2_TILE(0)
DS2_TILE(1)
DS2_TILE(2)
DS2_TILE(3)
DS2_TILE(4)
DS2_TILE(5)
DS2_TILE(6)
DS2_TILE(7)
#undef DS2_TILE

template <int kSum, int kLeft, int kRight>
struct TileProduct;

#define DS2_TILE_PRODUCT(sum, left, right)                           \
  template <>                                                        \
  struct TileProduct<sum, left, right> {                             \
    DS2_TILE_INLINE void Add() { _tile_dpbf16ps(sum, left, right); } \
  };
DS2_TILE_PRODUCT(0, 4, 5)
DS2_TILE_PRODUCT(1, 4, 6)
DS2_TILE_PRODUCT(2, 4, 7)
DS2_TILE_PRODUCT(3, 4, 5)
DS2_TILE_PRODUCT(0, 4, 6)
DS2_TILE_PRODUCT(1, 4, 7)
DS2_TILE_PRODUCT(2, 5, 6)
DS2_TILE_PRODUCT(3, 5, 7)
#undef DS2_TILE_PRODUCT

struct ProcessorTiles {
  template <int kTile>
  DS2_TILE_INLINE void Clear() {
    Tile<kTile>::Clear();
  }
  template <int kTile>
  DS2_TILE_INLINE void Load(const uint32_t* from, int64_t stride) {
    Tile<kTile>::Load(from, stride);
  }
  template <int kTile>
  DS2_TILE_INLINE void Store(float* to, int64_t stride) {
    Tile<kTile>::Store(to, stride);
  }
  template <int kSum, int kLeft, int kRight>
  DS2_TILE_INLINE void AddProduct() {
    TileProduct<kSum, kLeft, kRight>::Add();
  }
};

struct alignas(64) TileConfiguration {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfiguration) == 64, "the processor reads 64 bytes");

// All eight tiles at their full size. A constant in memory: the compiler doesn't know that the
// instruction reads all of it.
const TileConfiguration kFullTiles = {
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

DS2_TILE_TARGET void Begin() { _tile_loadconfig(&kFullTiles); }
DS2_TILE_TARGET void End() { _tile_release(); }

}  // namespace

const Kernels& AmxKernels() {
  static const Kernels kernels =
      TileKernels(InstructionSet::kAmxBf16, MultiplyInTiles<ProcessorTiles>, Begin, End);
  return kernels;
}

}  // namespace ds2

#elif defined(__x86_64__)

namespace ds2 {

// The compiler is too old for tiles.
const Kernels& AmxKernels() { return Avx512Bf16Kernels(); }

}  // namespace ds2

#endif
