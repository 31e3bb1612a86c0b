// The GPU form of CTC on a host: for tests of the algorithm where there is no GPU. Slow.

#ifndef DS2_TF_NATIVE_CTC_EMULATION_H_
#define DS2_TF_NATIVE_CTC_EMULATION_H_

#include <cstddef>

#include "ctc.h"

namespace ds2 {

// In which order a phase runs its threads. A result that depends on it betrays a race.
enum class ThreadOrder { kForward, kBackward };

// Computes the batch as a GPU would whose blocks may have `shared_limit` bytes of shared memory.
// All memory is the host's; the workspace is its own.
void CtcEmulatedLoss(const CtcBatch& batch, size_t shared_limit, ThreadOrder order);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_EMULATION_H_
