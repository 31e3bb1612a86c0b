#include "ds2_tf/native/gemm_kernels.h"

#include "ds2_tf/native/gemm_bfloat16.h"

#define DS2_KERNELS "ds2_tf/native/gemm_kernels_inl.h"
#include "ds2_tf/native/for_each_instruction_set.h"

namespace ds2 {

const Kernels& FindKernels(Precision precision, InstructionSet set) {
#if defined(__x86_64__)
  if (precision == Precision::kBfloat16) {
    if (set >= InstructionSet::kAmxBf16) return AmxKernels();
    if (set >= InstructionSet::kAvx512Bf16) return Avx512Bf16Kernels();
  }
  if (set >= InstructionSet::kAvx512) return avx512::FloatKernels(precision);
  if (set >= InstructionSet::kAvx2) return avx2::FloatKernels(precision);
#endif
  return generic::FloatKernels(precision);
}

}  // namespace ds2
