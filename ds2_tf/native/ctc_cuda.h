// CTC on an NVIDIA GPU: loss, and gradient with respect to the logits.
//
// Free of TensorFlow and, for its callers, of CUDA's headers. The work is put on the caller's
// stream; nothing waits for it.

#ifndef DS2_TF_NATIVE_CTC_CUDA_H_
#define DS2_TF_NATIVE_CTC_CUDA_H_

#include <cstddef>

#include "ctc.h"

namespace ds2 {

// Sets *bytes to the device memory that the batch needs as workspace. Returns nullptr, or what
// CUDA says went wrong.
const char* CtcCudaWorkspaceBytes(const CtcBatch& batch, size_t* bytes);

// Computes the batch, all of whose pointers are to the current device's memory, on `stream` (a
// cudaStream_t). The results are there when the stream has run so far. Returns nullptr, or what
// CUDA says went wrong.
const char* CtcCudaLoss(const CtcBatch& batch, void* workspace, void* stream);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_CUDA_H_
