// CTC on an NVIDIA GPU: loss, and gradient with respect to the logits.
//
// Free of TensorFlow and, for its callers, of CUDA's headers. The work is put on the caller's
// stream; nothing waits for it.

#ifndef DS2_TF_NATIVE_CTC_CUDA_H_
#define DS2_TF_NATIVE_CTC_CUDA_H_

#include <cstddef>

#include "ctc.h"

namespace ds2 {

// Returns nullptr if the kernels can run on the current device, else what CUDA says is wrong: no
// device, a driver too old for this CUDA, a device that they were not compiled for.
const char* CtcCudaProblem();

// Copies to the current device's memory, on `stream` (a cudaStream_t). The host's memory may change
// when this returns, unless it is page-locked. Returns nullptr, or what CUDA says went wrong.
const char* CtcCudaCopyToDevice(const void* host, size_t bytes, void* device, void* stream);

// Sets *bytes to the device memory that the batch needs as workspace. Returns nullptr, or what
// CUDA says went wrong.
const char* CtcCudaWorkspaceBytes(const CtcBatch& batch, size_t* bytes);

// Computes the batch, all of whose pointers are to the current device's memory, on `stream` (a
// cudaStream_t). The results are there when the stream has run so far. Returns nullptr, or what
// CUDA says went wrong.
const char* CtcCudaLoss(const CtcBatch& batch, void* workspace, void* stream);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_CUDA_H_
