#include "ds2_tf/native/sequence_norm_kernels.h"

#define DS2_KERNELS "ds2_tf/native/sequence_norm_kernels_inl.h"
#include "ds2_tf/native/for_each_instruction_set.h"

namespace ds2 {

template <class T>
NormKernels<T> FindNormKernels(InstructionSet set) {
#if defined(__x86_64__)
  if (set >= InstructionSet::kAvx512) return avx512::SetOfNormKernels<T>();
  if (set >= InstructionSet::kAvx2) return avx2::SetOfNormKernels<T>();
#endif
  (void)set;
  return generic::SetOfNormKernels<T>();
}

template NormKernels<float> FindNormKernels(InstructionSet set);
template NormKernels<Bfloat16> FindNormKernels(InstructionSet set);

}  // namespace ds2
