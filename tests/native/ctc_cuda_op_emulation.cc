// The operation for GPUs where there is none: its kernel as it is, registered for the CPU under
// another name, over an emulated GPU.

#include <cstring>

#include "ds2_tf/native/ctc_cuda.h"
#include "ds2_tf/native/ctc_cuda_op.h"
#include "ds2_tf/native/ctc_emulation.h"
#include "ds2_tf/native/ctc_kernel.h"
#include "tensorflow/core/framework/op.h"

namespace ds2 {
namespace {

namespace tf = ::tensorflow;

constexpr size_t kSharedBytes = 48 * 1024;

REGISTER_OP("Ds2>EmulatedCtcLoss")
    .Input("logits: T")
    .Input("logit_lengths: int32")
    .Input("labels: int32")
    .Input("label_lengths: int32")
    .Output("loss: float")
    .Output("gradient: T")
    .Attr("T: {float, bfloat16, half}")
    .Attr("time_major: bool = false")
    .Attr("blank: int = 0")
    .Attr("infeasible: {'error', 'zero'} = 'error'");

REGISTER_KERNEL_BUILDER(Name("Ds2>EmulatedCtcLoss").Device(tf::DEVICE_CPU), CtcCudaLossOp);

}  // namespace

const char* CtcCudaCopyToDevice(const void* host, size_t bytes, void* device, void*) {
  memcpy(device, host, bytes);
  return nullptr;
}

const char* CtcCudaWorkspaceBytes(const CtcBatch& batch, size_t* bytes) {
  // Stands for what CUDA can get wrong.
  if (batch.num_symbols == 13) return "out of luck";
  *bytes = CtcKernelWorkspaceBytes(
      batch, PlanRecursion(batch.num_frames, batch.max_labels, kSharedBytes));
  return nullptr;
}

const char* CtcCudaLoss(const CtcBatch& batch, void* workspace, void*) {
  // The emulation has a workspace of its own; this one must not overlap anything.
  size_t bytes;
  CtcCudaWorkspaceBytes(batch, &bytes);
  memset(workspace, 0xff, bytes);
  CtcEmulatedLoss(batch, kSharedBytes, ThreadOrder::kForward);
  return nullptr;
}

}  // namespace ds2
