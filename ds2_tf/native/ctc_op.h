// What the operation Ds2>CtcLoss does on every device: checks shapes, allocates the results, judges
// the utterances. A device's form of it brings memory and threads, or a stream.

#ifndef DS2_TF_NATIVE_CTC_OP_H_
#define DS2_TF_NATIVE_CTC_OP_H_

#include <algorithm>
#include <string>
#include <vector>

#include "ds2_tf/native/ctc.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ds2 {

class CtcLossOp : public tensorflow::OpKernel {
 public:
  explicit CtcLossOp(tensorflow::OpKernelConstruction* context) : tensorflow::OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("time_major", &time_major_));
    OP_REQUIRES_OK(context, context->GetAttr("blank", &blank_));
    std::string infeasible;
    OP_REQUIRES_OK(context, context->GetAttr("infeasible", &infeasible));
    zero_infeasible_ = infeasible == "zero";
    element_type_ = context->input_type(0) == tensorflow::DT_BFLOAT16 ? ElementType::kBfloat16
                    : context->input_type(0) == tensorflow::DT_HALF   ? ElementType::kFloat16
                                                                      : ElementType::kFloat32;
  }

  void Compute(tensorflow::OpKernelContext* context) final {
    const tensorflow::Tensor& logits = context->input(0);
    const tensorflow::Tensor& logit_lengths = context->input(1);
    const tensorflow::Tensor& labels = context->input(2);
    const tensorflow::Tensor& label_lengths = context->input(3);
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

    tensorflow::Tensor* losses;
    tensorflow::Tensor* gradients;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, tensorflow::TensorShape({num_utterances}), &losses));
    OP_REQUIRES_OK(context, context->allocate_output(1, logits.shape(), &gradients));
    if (num_utterances == 0) return;

    CtcBatch batch;
    batch.element_type = element_type_;
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
    batch.statuses = nullptr;
    OP_REQUIRES_OK(context, Run(context, batch));
  }

 protected:
  // Computes a batch of at least one utterance. Its lengths and labels are in the host's memory,
  // logits, gradients and losses in the device's; where the statuses go is the form's choice.
  virtual absl::Status Run(tensorflow::OpKernelContext* context, CtcBatch batch) const = 0;

  // Returns an error that names the utterances that are none to train with.
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

 private:
  // Lists the rows of one status for an error message.
  static std::string RowsWith(CtcStatus status, const std::vector<CtcStatus>& statuses) {
    std::string rows;
    for (size_t row = 0; row < statuses.size(); ++row) {
      if (statuses[row] == status) rows += (rows.empty() ? "" : ", ") + std::to_string(row);
    }
    return rows;
  }

  bool time_major_;
  int blank_;
  bool zero_infeasible_;
  ElementType element_type_;
};

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_OP_H_
