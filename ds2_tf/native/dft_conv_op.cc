// The TensorFlow operations Ds2>DftConv and Ds2>DftConvGradients: shapes, memory and threads for
// dft_conv.h.

#include "ds2_tf/native/dft_conv.h"

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "ds2_tf/native/thread_pool.h"

namespace ds2 {
namespace {

namespace tf = ::tensorflow;

REGISTER_OP("Ds2>DftConv")
    .Input("x: float")
    .Input("lengths: int32")
    .Input("kernel: float")
    .Output("y: float")
    .Attr("stride_time: int >= 1")
    .Attr("stride_frequency: int >= 1")
    .Attr("with_x_gradient: bool = true")  // read by the gradient's function
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      tf::shape_inference::ShapeHandle x, kernel, unused;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 4, &x));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 1, &unused));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(2), 4, &kernel));
      int strides[2];
      TF_RETURN_IF_ERROR(context->GetAttr("stride_time", &strides[0]));
      TF_RETURN_IF_ERROR(context->GetAttr("stride_frequency", &strides[1]));
      tf::shape_inference::DimensionHandle sizes[2];
      for (int axis = 0; axis < 2; ++axis) {
        const auto size = context->Dim(x, axis + 1);
        sizes[axis] = context->ValueKnown(size)
                          ? context->MakeDim((context->Value(size) + strides[axis] - 1) /
                                             strides[axis])
                          : context->UnknownDim();
      }
      context->set_output(0, context->MakeShape({context->Dim(x, 0), sizes[0], sizes[1],
                                                 context->Dim(kernel, 3)}));
      return absl::OkStatus();
    })
    .Doc("Convolution of padded sequences; see ds2_tf/ops/convolution.py.");

REGISTER_OP("Ds2>DftConvGradients")
    .Input("x: float")
    .Input("lengths: int32")
    .Input("kernel: float")
    .Input("y_gradient: float")
    .Output("x_gradient: float")
    .Output("kernel_gradient: float")
    .Attr("stride_time: int >= 1")
    .Attr("stride_frequency: int >= 1")
    .Attr("with_x: bool = true")
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      bool with_x;
      TF_RETURN_IF_ERROR(context->GetAttr("with_x", &with_x));
      context->set_output(0, with_x ? context->input(0) : context->MakeShape({0, 0, 0, 0}));
      context->set_output(1, context->input(2));
      return absl::OkStatus();
    })
    .Doc("Gradients of Ds2>DftConv; without with_x that of x is empty.");

// What both operations share.
class DftConvBase : public tf::OpKernel {
 public:
  explicit DftConvBase(tf::OpKernelConstruction* context) : tf::OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("stride_time", &stride_time_));
    OP_REQUIRES_OK(context, context->GetAttr("stride_frequency", &stride_frequency_));
  }

 protected:
  // Reads and checks the shape of the first three inputs.
  absl::Status ReadShape(tf::OpKernelContext* context, DftConvShape* shape) const {
    const tf::Tensor& x = context->input(0);
    const tf::Tensor& kernel = context->input(2);
    if (x.dims() != 4 || kernel.dims() != 4 || x.dim_size(3) != kernel.dim_size(2)) {
      return absl::InvalidArgumentError("x and kernel must have 4 dimensions and agree in C");
    }
    if (context->input(1).NumElements() != x.dim_size(0)) {
      return absl::InvalidArgumentError("x and lengths must agree in B");
    }
    *shape = {x.dim_size(0),      x.dim_size(1),      x.dim_size(2),
              x.dim_size(3),      kernel.dim_size(3), kernel.dim_size(0),
              kernel.dim_size(1), stride_time_,       stride_frequency_};
    if (const char* reason = DftConv::WhyUnsupported(*shape); reason != nullptr) {
      return absl::InvalidArgumentError(reason);
    }
    return absl::OkStatus();
  }

 private:
  int64_t stride_time_;
  int64_t stride_frequency_;
};

class DftConvOp : public DftConvBase {
 public:
  using DftConvBase::DftConvBase;

  void Compute(tf::OpKernelContext* context) override {
    DftConvShape shape;
    OP_REQUIRES_OK(context, ReadShape(context, &shape));
    tf::Tensor* y;
    OP_REQUIRES_OK(context,
                   context->allocate_output(
                       0,
                       tf::TensorShape({shape.batch, shape.OutputTime(), shape.OutputFrequency(),
                                        shape.filters}),
                       &y));
    if (y->NumElements() == 0) return;
    const Parallel parallel = ThreadPool(context);
    const DftConv convolution(shape, parallel.num_threads);
    tf::Tensor workspace;
    OP_REQUIRES_OK(context, context->allocate_temp(
                                tf::DT_UINT8,
                                tf::TensorShape({static_cast<int64_t>(
                                    convolution.ForwardWorkspaceBytes())}),
                                &workspace));
    convolution.Forward(context->input(0).flat<float>().data(),
                        context->input(1).flat<int32_t>().data(),
                        context->input(2).flat<float>().data(), y->flat<float>().data(),
                        workspace.data(), parallel);
  }
};

class DftConvGradientsOp : public DftConvBase {
 public:
  explicit DftConvGradientsOp(tf::OpKernelConstruction* context) : DftConvBase(context) {
    OP_REQUIRES_OK(context, context->GetAttr("with_x", &with_x_));
  }

  void Compute(tf::OpKernelContext* context) override {
    DftConvShape shape;
    OP_REQUIRES_OK(context, ReadShape(context, &shape));
    const tf::Tensor& x = context->input(0);
    const tf::Tensor& kernel = context->input(2);
    const tf::Tensor& y_gradient = context->input(3);
    OP_REQUIRES(context,
                y_gradient.shape() == tf::TensorShape({shape.batch, shape.OutputTime(),
                                                       shape.OutputFrequency(), shape.filters}),
                absl::InvalidArgumentError("y_gradient must have the shape of y"));
    tf::Tensor* x_gradient;
    tf::Tensor* kernel_gradient;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, with_x_ ? x.shape() : tf::TensorShape({0, 0, 0, 0}),
                                &x_gradient));
    OP_REQUIRES_OK(context, context->allocate_output(1, kernel.shape(), &kernel_gradient));
    if (y_gradient.NumElements() == 0) {
      x_gradient->flat<float>().setZero();
      kernel_gradient->flat<float>().setZero();
      return;
    }
    const Parallel parallel = ThreadPool(context);
    const DftConv convolution(shape, parallel.num_threads);
    tf::Tensor workspace;
    OP_REQUIRES_OK(context, context->allocate_temp(
                                tf::DT_UINT8,
                                tf::TensorShape({static_cast<int64_t>(
                                    convolution.GradientsWorkspaceBytes(with_x_, true))}),
                                &workspace));
    convolution.Gradients(x.flat<float>().data(), context->input(1).flat<int32_t>().data(),
                          kernel.flat<float>().data(), y_gradient.flat<float>().data(),
                          with_x_ ? x_gradient->flat<float>().data() : nullptr,
                          kernel_gradient->flat<float>().data(), workspace.data(),
                          ThreadPool(context));
  }

 private:
  bool with_x_;
};

REGISTER_KERNEL_BUILDER(Name("Ds2>DftConv").Device(tf::DEVICE_CPU), DftConvOp);
REGISTER_KERNEL_BUILDER(Name("Ds2>DftConvGradients").Device(tf::DEVICE_CPU), DftConvGradientsOp);

}  // namespace
}  // namespace ds2
