// The TensorFlow operations Ds2>Recurrence and Ds2>RecurrenceGradient: shapes, memory and threads
// for recurrence.h.

#include "ds2_tf/native/recurrence.h"

#include <algorithm>
#include <string>

#include "ds2_tf/native/thread_pool.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ds2 {
namespace {

namespace tf = ::tensorflow;
using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

REGISTER_OP("Ds2>Recurrence")
    .Input("projected: float")
    .Input("weights: float")
    .Input("lengths: int32")
    .Input("initial: float")
    .Output("outputs: float")
    .Output("final: float")
    .Output("previous: float")
    .Output("kept: float")
    .Attr("cell: {'rnn', 'gru'}")
    .Attr("round_to_bfloat16: bool = false")
    .SetShapeFn([](InferenceContext* context) {
      ShapeHandle projected, weights, initial;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 3, &projected));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 3, &weights));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(3), 3, &initial));
      const auto units = context->Dim(weights, 1);
      context->set_output(0, context->MakeShape({context->Dim(projected, 0),
                                                 context->Dim(projected, 1), units}));
      context->set_output(1, initial);
      const auto unknown = context->MakeShape(
          {context->Dim(weights, 0), context->UnknownDim(), context->UnknownDim()});
      context->set_output(2, unknown);
      context->set_output(3, unknown);
      return absl::OkStatus();
    })
    .Doc("Recurrences over projected inputs, their outputs summed; see ds2_tf/ops/recurrence.py.");

REGISTER_OP("Ds2>RecurrenceGradient")
    .Input("projected: float")
    .Input("weights: float")
    .Input("lengths: int32")
    .Input("final: float")
    .Input("previous: float")
    .Input("kept: float")
    .Input("by_outputs: float")
    .Input("by_final: float")
    .Output("by_projected: float")
    .Output("by_weights: float")
    .Output("by_initial: float")
    .Attr("cell: {'rnn', 'gru'}")
    .Attr("round_to_bfloat16: bool = false")
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->input(0));
      context->set_output(1, context->input(1));
      context->set_output(2, context->input(3));
      return absl::OkStatus();
    })
    .Doc("Gradient of Ds2>Recurrence.");

// What both operations share.
class RecurrenceBase : public tf::OpKernel {
 public:
  explicit RecurrenceBase(tf::OpKernelConstruction* context) : tf::OpKernel(context) {
    std::string cell;
    OP_REQUIRES_OK(context, context->GetAttr("cell", &cell));
    cell_ = cell == "gru" ? RecurrentCell::kGru : RecurrentCell::kClippedRelu;
    bool bfloat16;
    OP_REQUIRES_OK(context, context->GetAttr("round_to_bfloat16", &bfloat16));
    kernels_ = &FindKernels(bfloat16 ? Precision::kBfloat16 : Precision::kFloat32,
                            BestInstructionSet());
  }

 protected:
  // Reads and checks the shapes of the first three inputs.
  absl::Status Read(tf::OpKernelContext* context, RecurrenceConfig* config) const {
    const tf::Tensor& projected = context->input(0);
    const tf::Tensor& weights = context->input(1);
    const tf::Tensor& lengths = context->input(2);
    if (projected.dims() != 3 || weights.dims() != 3) {
      return absl::InvalidArgumentError("projected and weights must have 3 dimensions");
    }
    *config = {cell_, weights.dim_size(0), weights.dim_size(1), kernels_};
    const int64_t size = config->gates() * config->units;
    const bool shared = projected.dim_size(2) == size;
    if (config->directions < 1 || config->directions > 2 || weights.dim_size(2) != size ||
        !(shared || projected.dim_size(2) == size * config->directions)) {
      return absl::InvalidArgumentError(
          "weights must be [D, H, G] with D = 1 or 2, and projected [B, T, G] or [B, T, D G]");
    }
    if (lengths.NumElements() != projected.dim_size(0)) {
      return absl::InvalidArgumentError("projected and lengths must agree in B");
    }
    const auto values = lengths.flat<int32_t>();
    for (int64_t i = 0; i < values.size(); ++i) {
      if (values(i) < 0 || values(i) > projected.dim_size(1)) {
        return absl::InvalidArgumentError("lengths must lie in [0, T]");
      }
    }
    return absl::OkStatus();
  }

  // Views a [B, T, G] or [B, T, D G] array.
  template <class T>
  static Frames<T> View(T* data, const tf::Tensor& tensor, const RecurrenceConfig& config) {
    const int64_t size = config.gates() * config.units;
    const int64_t width = tensor.dim_size(2);
    return {data, width == size ? 0 : size, tensor.dim_size(1) * width, width};
  }

  static absl::Status Allocate(tf::OpKernelContext* context, size_t bytes, tf::Tensor* workspace) {
    return context->allocate_temp(
        tf::DT_UINT8, tf::TensorShape({static_cast<int64_t>(std::max<size_t>(bytes, 1))}),
        workspace);
  }

 private:
  RecurrentCell cell_;
  const Kernels* kernels_;
};

class RecurrenceOp : public RecurrenceBase {
 public:
  using RecurrenceBase::RecurrenceBase;

  void Compute(tf::OpKernelContext* context) override {
    RecurrenceConfig config;
    OP_REQUIRES_OK(context, Read(context, &config));
    const tf::Tensor& projected = context->input(0);
    const tf::Tensor& lengths = context->input(2);
    const int64_t batch = projected.dim_size(0), frames = projected.dim_size(1);
    const tf::TensorShape state_shape({config.directions, batch, config.units});
    OP_REQUIRES(context, context->input(3).shape() == state_shape,
                absl::InvalidArgumentError("initial must be [D, B, H]"));
    const RecurrencePlan plan(lengths.flat<int32_t>().data(), batch);
    const int64_t num_kept = config.cell == RecurrentCell::kGru ? 3 * config.units : 0;
    tf::Tensor *outputs, *final, *previous, *kept;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, tf::TensorShape({batch, frames, config.units}),
                                            &outputs));
    OP_REQUIRES_OK(context, context->allocate_output(1, state_shape, &final));
    OP_REQUIRES_OK(context, context->allocate_output(
                                2,
                                tf::TensorShape({config.directions, plan.num_frames(),
                                                 config.units}),
                                &previous));
    OP_REQUIRES_OK(context, context->allocate_output(
                                3,
                                tf::TensorShape({config.directions, plan.num_frames(), num_kept}),
                                &kept));
    const Parallel parallel = ThreadPool(context);
    tf::Tensor workspace;
    OP_REQUIRES_OK(context, Allocate(context,
                                     ForwardWorkspaceBytes(config, plan, parallel.num_threads),
                                     &workspace));
    RunForward(config, plan,
               {View(projected.flat<float>().data(), projected, config),
                context->input(1).flat<float>().data(), context->input(3).flat<float>().data(),
                previous->flat<float>().data(),
                num_kept == 0 ? nullptr : kept->flat<float>().data(),
                outputs->flat<float>().data(), final->flat<float>().data()},
               frames, workspace.data(), parallel);
  }
};

class RecurrenceGradientOp : public RecurrenceBase {
 public:
  using RecurrenceBase::RecurrenceBase;

  void Compute(tf::OpKernelContext* context) override {
    RecurrenceConfig config;
    OP_REQUIRES_OK(context, Read(context, &config));
    const tf::Tensor& projected = context->input(0);
    const RecurrencePlan plan(context->input(2).flat<int32_t>().data(), projected.dim_size(0));
    tf::Tensor *by_projected, *by_weights, *by_initial;
    OP_REQUIRES_OK(context, context->allocate_output(0, projected.shape(), &by_projected));
    OP_REQUIRES_OK(context, context->allocate_output(1, context->input(1).shape(), &by_weights));
    OP_REQUIRES_OK(context, context->allocate_output(2, context->input(3).shape(), &by_initial));
    const Parallel parallel = ThreadPool(context);
    tf::Tensor workspace;
    OP_REQUIRES_OK(context, Allocate(context,
                                     BackwardWorkspaceBytes(config, plan, parallel.num_threads),
                                     &workspace));
    const auto input = [context](int i) { return context->input(i).flat<float>().data(); };
    RunBackward(config, plan,
                {View(projected.flat<float>().data(), projected, config), input(1), input(4),
                 config.cell == RecurrentCell::kGru ? input(5) : nullptr, input(3), input(6),
                 input(7), View(by_projected->flat<float>().data(), projected, config),
                 by_weights->flat<float>().data(), by_initial->flat<float>().data()},
                projected.dim_size(1), workspace.data(), parallel);
  }
};

REGISTER_KERNEL_BUILDER(Name("Ds2>Recurrence").Device(tf::DEVICE_CPU), RecurrenceOp);
REGISTER_KERNEL_BUILDER(Name("Ds2>RecurrenceGradient").Device(tf::DEVICE_CPU),
                        RecurrenceGradientOp);

}  // namespace
}  // namespace ds2
