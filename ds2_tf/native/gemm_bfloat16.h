// Products of bfloat16 pairs by instructions made for them.

#ifndef DS2_TF_NATIVE_GEMM_BFLOAT16_H_
#define DS2_TF_NATIVE_GEMM_BFLOAT16_H_

#include "ds2_tf/native/gemm_kernels.h"

#if defined(__x86_64__)

namespace ds2 {

const Kernels& Avx512Bf16Kernels();
const Kernels& AmxKernels();

// What gemm_amx_inl.h computes in: tiles of 16 x 16 words, panels of four tiles, and two rows of
// tiles at once.
constexpr int kTileSize = 16;
constexpr int kTileColumns = 4 * kTileSize;
constexpr int kTileRows = 2 * kTileSize;

// Returns kernels that multiply in tiles, as gemm_amx_inl.h does, by the functions given.
Kernels TileKernels(InstructionSet set, decltype(Kernels::multiply) multiply,
                    decltype(Kernels::begin) begin, decltype(Kernels::end) end);

// The same program over emulated tiles, for tests; slow.
const Kernels& EmulatedAmxKernels();

}  // namespace ds2

#endif

#endif  // DS2_TF_NATIVE_GEMM_BFLOAT16_H_
