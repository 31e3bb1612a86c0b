// The TensorFlow operation Ds2>CtcLoss: checks shapes, brings memory and threads to ctc.h.

#include "ds2_tf/native/ctc.h"

#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "ds2_tf/native/thread_pool.h"

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

template <typename T>
constexpr ElementType kElementType = ElementType::kFloat32;
template <>
constexpr ElementType kElementType<tf::bfloat16> = ElementType::kBfloat16;
template <>
constexpr ElementType kElementType<Eigen::half> = ElementType::kFloat16;

// Lists the rows of one status for an error message.
std::string RowsWith(CtcStatus status, const std::vector<CtcStatus>& statuses) {
  std::string rows;
  for (size_t row = 0; row < statuses.size(); ++row) {
    if (statuses[row] == status) rows += (rows.empty() ? "" : ", ") + std::to_string(row);
  }
  return rows;
}

template <typename T>
class CtcLossOp : public tf::OpKernel {
 public:
  explicit CtcLossOp(tf::OpKernelConstruction* context) : tf::OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("time_major", &time_major_));
    OP_REQUIRES_OK(context, context->GetAttr("blank", &blank_));
    std::string infeasible;
    OP_REQUIRES_OK(context, context->GetAttr("infeasible", &infeasible));
    zero_infeasible_ = infeasible == "zero";
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& logits = context->input(0);
    const tf::Tensor& logit_lengths = context->input(1);
    const tf::Tensor& labels = context->input(2);
    const tf::Tensor& label_lengths = context->input(3);
    OP_REQUIRES(context, logits.dims() == 3 && labels.dims() == 2,
                absl::InvalidArgumentError("logits must have 3 dimensions and labels 2"));
    const int64_t num_utterances = logits.dim_size(time_major_ ? 1 : 0);
    const int64_t num_frames = logits.dim_size(time_major_ ? 0 : 1);
    const int64_t num_symbols = logits.dim_size(2);
    OP_REQUIRES(context,
                logit_lengths.NumElements() == num_utterances &&
                    label_lengths.NumElements() == num_utterances &&
                    labels.dim_size(0) == num_utterances,
                absl::InvalidArgumentError("logits, labels and lengths must agree in B"));
    OP_REQUIRES(context, 0 <= blank_ && blank_ < std::max<int64_t>(num_symbols, 1),
                absl::InvalidArgumentError("blank must lie in [0, V)"));

    tf::Tensor* losses;
    tf::Tensor* gradients;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, tf::TensorShape({num_utterances}), &losses));
    OP_REQUIRES_OK(context, context->allocate_output(1, logits.shape(), &gradients));
    if (num_utterances == 0) return;

    std::vector<CtcStatus> statuses(num_utterances);
    CtcBatch batch;
    batch.element_type = kElementType<T>;
    batch.logits = logits.data();
    batch.gradients = gradients->data();
    batch.utterance_stride = time_major_ ? num_symbols : num_frames * num_symbols;
    batch.frame_stride = time_major_ ? num_utterances * num_symbols : num_symbols;
    batch.num_utterances = num_utterances;
    batch.num_frames = num_frames;
    batch.num_symbols = num_symbols;
    batch.blank = blank_;
    batch.logit_lengths = logit_lengths.flat<int32_t>().data();
    batch.labels = labels.flat<int32_t>().data();
    batch.label_lengths = label_lengths.flat<int32_t>().data();
    batch.max_labels = labels.dim_size(1);
    batch.losses = losses->flat<float>().data();
    batch.statuses = statuses.data();

    const Parallel parallel = ThreadPool(context);
    const int num_workers = std::min<int64_t>(parallel.num_threads, num_utterances);
    tf::Tensor workspace;
    OP_REQUIRES_OK(context, context->allocate_temp(
                                tf::DT_UINT8,
                                tf::TensorShape({static_cast<int64_t>(
                                    CtcBatchWorkspaceBytes(batch, num_workers))}),
                                &workspace));
    CtcBatchLoss(batch, workspace.data(), num_workers, parallel);
    OP_REQUIRES_OK(context, Judge(statuses));
  }

 private:
  absl::Status Judge(const std::vector<CtcStatus>& statuses) const {
    if (const std::string rows = RowsWith(CtcStatus::kInvalidLabel, statuses); !rows.empty()) {
      return absl::InvalidArgumentError("labels are the blank or outside [0, V) in batch rows " +
                                        rows);
    }
    if (const std::string rows = RowsWith(CtcStatus::kInvalidLength, statuses); !rows.empty()) {
      return absl::InvalidArgumentError(
          "lengths are negative or longer than the tensor in batch rows " + rows);
    }
    if (const std::string rows = RowsWith(CtcStatus::kInfeasible, statuses);
        !rows.empty() && !zero_infeasible_) {
      return absl::InvalidArgumentError(
          "the labels need more frames than there are in batch rows " + rows);
    }
    return absl::OkStatus();
  }

  bool time_major_;
  int blank_;
  bool zero_infeasible_;
};

#define REGISTER(T) \
  REGISTER_KERNEL_BUILDER( \
      Name("Ds2>CtcLoss").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), CtcLossOp<T>)
REGISTER(float);
REGISTER(tf::bfloat16);
REGISTER(Eigen::half);
#undef REGISTER

}  // namespace
}  // namespace ds2
