#include "ds2_tf/native/recurrence_cells.h"

#define DS2_KERNELS "ds2_tf/native/recurrence_cells_inl.h"
#include "ds2_tf/native/for_each_instruction_set.h"

namespace ds2 {

CellKernels ClippedReluKernels(InstructionSet set) {
#if defined(__x86_64__)
  if (set >= InstructionSet::kAvx512) {
    return {avx512::ClippedReluForward, avx512::ClippedReluBackward};
  }
  if (set >= InstructionSet::kAvx2) return {avx2::ClippedReluForward, avx2::ClippedReluBackward};
#endif
  (void)set;
  return {generic::ClippedReluForward, generic::ClippedReluBackward};
}

CellKernels GruKernels(InstructionSet set) {
#if defined(__x86_64__)
  if (set >= InstructionSet::kAvx512) return {avx512::GruForward, avx512::GruBackward};
  if (set >= InstructionSet::kAvx2) return {avx2::GruForward, avx2::GruBackward};
#endif
  (void)set;
  return {generic::GruForward, generic::GruBackward};
}

}  // namespace ds2
