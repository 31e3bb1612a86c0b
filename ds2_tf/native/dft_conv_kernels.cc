#include "ds2_tf/native/dft_conv_plan.h"

#define DS2_KERNELS "ds2_tf/native/dft_conv_kernels_inl.h"
#include "ds2_tf/native/for_each_instruction_set.h"

namespace ds2 {
namespace dft_conv {

const Functions& FunctionsFor(InstructionSet set) {
#if defined(__x86_64__)
  if (set >= InstructionSet::kAvx512) return avx512::kFunctions;
  if (set >= InstructionSet::kAvx2) return avx2::kFunctions;
#endif
  return generic::kFunctions;
}

}  // namespace dft_conv
}  // namespace ds2
