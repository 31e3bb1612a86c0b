// The TensorFlow operation Ds2>CtcLoss, and its kernel for CPUs: ctc.h on TensorFlow's own threads.

#include "ds2_tf/native/ctc_op.h"

#include <algorithm>
#include <vector>

#include "ds2_tf/native/ctc.h"
#include "ds2_tf/native/thread_pool.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ds2 {
namespace {

namespace tf = ::tensorflow;

REGISTER_OP("Ds2>CtcLoss")
    .Input("logits: T")
    .Input("logit_lengths: int32")
    .Input("labels: int32")
    .Input("label_lengths: int32")
    .Output("loss: float")
    .Output("gradient: T")
    .Attr("T: {float, bfloat16, half}")
    .Attr("time_major: bool = false")
    .Attr("blank: int = 0")
    .Attr("infeasible: {'error', 'zero'} = 'error'")
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      tf::shape_inference::ShapeHandle logits, unused;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 3, &logits));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 1, &unused));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(2), 2, &unused));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(3), 1, &unused));
      bool time_major;
      TF_RETURN_IF_ERROR(context->GetAttr("time_major", &time_major));
      context->set_output(0, context->Vector(context->Dim(logits, time_major ? 1 : 0)));
      context->set_output(1, logits);
      return absl::OkStatus();
    })
    .Doc("-log p(labels | logits) of each utterance and its gradient; see ds2_tf/ops/ctc.py.");

class CtcCpuLossOp : public CtcLossOp {
 public:
  using CtcLossOp::CtcLossOp;

 protected:
  absl::Status Run(tf::OpKernelContext* context, CtcBatch batch) const override {
    std::vector<CtcStatus> statuses(batch.num_utterances);
    batch.statuses = statuses.data();
    const Parallel parallel = ThreadPool(context);
    const int num_workers = std::min(parallel.num_threads, batch.num_utterances);
    tf::Tensor workspace;
    TF_RETURN_IF_ERROR(context->allocate_temp(
        tf::DT_UINT8,
        tf::TensorShape({static_cast<int64_t>(CtcBatchWorkspaceBytes(batch, num_workers))}),
        &workspace));
    CtcBatchLoss(batch, workspace.data(), num_workers, parallel);
    return Judge(statuses);
  }
};

#define REGISTER(T) \
  REGISTER_KERNEL_BUILDER( \
      Name("Ds2>CtcLoss").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), CtcCpuLossOp)
REGISTER(float);
REGISTER(tf::bfloat16);
REGISTER(Eigen::half);
#undef REGISTER

}  // namespace
}  // namespace ds2
