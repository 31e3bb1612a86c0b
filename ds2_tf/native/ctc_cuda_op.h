// Ds2>CtcLoss on an NVIDIA GPU: ctc_cuda.h on TensorFlow's stream and memory.

#ifndef DS2_TF_NATIVE_CTC_CUDA_OP_H_
#define DS2_TF_NATIVE_CTC_CUDA_OP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ds2_tf/native/ctc_cuda.h"
#include "ds2_tf/native/ctc_op.h"
#include "xla/stream_executor/stream.h"

namespace ds2 {

// Lengths and labels come in the host's memory, where most of them are anyway: so bad ones are
// found without waiting for the GPU, and nothing else has to be read back.
class CtcCudaLossOp : public CtcLossOp {
 public:
  using CtcLossOp::CtcLossOp;

 protected:
  absl::Status Run(tensorflow::OpKernelContext* context, CtcBatch batch) const override {
    const size_t num_utterances = batch.num_utterances;
    std::vector<CtcStatus> statuses(num_utterances);
    for (size_t b = 0; b < num_utterances; ++b) statuses[b] = CheckCtcTarget(batch, b);
    TF_RETURN_IF_ERROR(Judge(statuses));

    // One copy instead of three. From a vector, which is not page-locked, CUDA has read it all
    // when the call returns.
    std::vector<int32_t> target;
    target.insert(target.end(), batch.logit_lengths, batch.logit_lengths + num_utterances);
    target.insert(target.end(), batch.label_lengths, batch.label_lengths + num_utterances);
    target.insert(target.end(), batch.labels, batch.labels + num_utterances * batch.max_labels);

    // The device's memory: workspace, target, statuses. TensorFlow may give it to others as soon as
    // this returns: they use it later in the same stream.
    size_t workspace_bytes;
    TF_RETURN_IF_ERROR(AsStatus(CtcCudaWorkspaceBytes(batch, &workspace_bytes)));
    const size_t target_bytes = target.size() * sizeof(int32_t);
    tensorflow::Tensor memory;
    TF_RETURN_IF_ERROR(context->allocate_temp(
        tensorflow::DT_UINT8,
        tensorflow::TensorShape({static_cast<int64_t>(workspace_bytes + target_bytes +
                                                      num_utterances * sizeof(CtcStatus))}),
        &memory));
    char* workspace = static_cast<char*>(memory.data());
    int32_t* device_target = reinterpret_cast<int32_t*>(workspace + workspace_bytes);
    batch.logit_lengths = device_target;
    batch.label_lengths = device_target + num_utterances;
    batch.labels = device_target + 2 * num_utterances;
    batch.statuses = reinterpret_cast<CtcStatus*>(device_target + target.size());
    void* stream = Stream(context);
    TF_RETURN_IF_ERROR(
        AsStatus(CtcCudaCopyToDevice(target.data(), target_bytes, device_target, stream)));
    return AsStatus(CtcCudaLoss(batch, workspace, stream));
  }

 private:
  // Returns TensorFlow's cudaStream_t, null on a host, where tests run this.
  static void* Stream(tensorflow::OpKernelContext* context) {
    tensorflow::DeviceContext* device = context->op_device_context();
    return device == nullptr ? nullptr : device->stream()->platform_specific_handle().stream;
  }

  static absl::Status AsStatus(const char* error) {
    if (error == nullptr) return absl::OkStatus();
    return absl::InternalError(std::string("CTC on the GPU: ") + error);
  }
};

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_CUDA_OP_H_
