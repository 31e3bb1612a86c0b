// The TensorFlow operations Ds2>SequenceMoments, Ds2>SequenceAffine and those of its gradient:
// shapes, memory and threads for sequence_norm.h.

#include "ds2_tf/native/sequence_norm.h"

#include <initializer_list>

#include "ds2_tf/native/thread_pool.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ds2 {
namespace {

namespace tf = ::tensorflow;
using tf::shape_inference::InferenceContext;

// Gives all outputs the shape [C] of the last dimension of the first input.
absl::Status OnePerChannel(InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) {
    context->set_output(i, context->Vector(context->Dim(context->input(0), -1)));
  }
  return absl::OkStatus();
}

// Gives the output the shape of the first input.
absl::Status LikeX(InferenceContext* context) {
  context->set_output(0, context->input(0));
  return absl::OkStatus();
}

REGISTER_OP("Ds2>SequenceMoments")
    .Input("x: T")
    .Input("lengths: int32")
    .Output("mean: float")
    .Output("variance: float")
    .Attr("T: {float, bfloat16}")
    .SetShapeFn(OnePerChannel)
    .Doc("Moments of the valid frames; see ds2_tf/ops/batch_norm.py.");

REGISTER_OP("Ds2>SequenceAffine")
    .Input("x: T")
    .Input("lengths: int32")
    .Input("scale: float")
    .Input("shift: float")
    .Output("y: T")
    .Attr("T: {float, bfloat16}")
    .Attr("clip: bool")
    .SetShapeFn(LikeX)
    .Doc("x scale + shift, clipped if asked, of the valid frames.");

REGISTER_OP("Ds2>SequenceAffineSums")
    .Input("x: T")
    .Input("lengths: int32")
    .Input("scale: float")
    .Input("shift: float")
    .Input("by_y: T")
    .Input("centre: float")
    .Output("sum: float")
    .Output("centred_sum: float")
    .Attr("T: {float, bfloat16}")
    .Attr("clip: bool")
    .SetShapeFn(OnePerChannel)
    .Doc("Sums of g and of g (x - centre), g the gradient of x scale + shift.");

REGISTER_OP("Ds2>SequenceAffineGradient")
    .Input("x: T")
    .Input("lengths: int32")
    .Input("scale: float")
    .Input("shift: float")
    .Input("by_y: T")
    .Input("factor: float")
    .Input("offset: float")
    .Output("by_x: T")
    .Attr("T: {float, bfloat16}")
    .Attr("clip: bool")
    .SetShapeFn(LikeX)
    .Doc("g scale + x factor + offset, g the gradient of x scale + shift.");

// TensorFlow's type of the same memory.
template <class T>
struct InTensorFlow {
  using Type = T;
};
template <>
struct InTensorFlow<Bfloat16> {
  using Type = tf::bfloat16;
};

template <class T>
class NormBase : public tf::OpKernel {
 public:
  explicit NormBase(tf::OpKernelConstruction* context) : tf::OpKernel(context) {
    if (context->HasAttr("clip")) OP_REQUIRES_OK(context, context->GetAttr("clip", &clip_));
  }

 protected:
  // Reads and checks the shapes of x [B, T, ..., C] and lengths, and of the other inputs: by_y is
  // input 4, all but these [C].
  absl::Status Read(tf::OpKernelContext* context, Sequences* sequences) const {
    const tf::Tensor& x = context->input(0);
    const tf::Tensor& lengths = context->input(1);
    if (x.dims() < 3 || lengths.NumElements() != x.dim_size(0)) {
      return absl::InvalidArgumentError("x must be [B, T, ..., C] and agree with lengths in B");
    }
    int64_t positions = 1;
    for (int i = 2; i < x.dims() - 1; ++i) positions *= x.dim_size(i);
    *sequences = {x.dim_size(0), x.dim_size(1), positions, x.dim_size(x.dims() - 1),
                  lengths.flat<int32_t>().data()};
    for (int64_t i = 0; i < sequences->batch; ++i) {
      if (sequences->lengths[i] < 0 || sequences->lengths[i] > sequences->frames) {
        return absl::InvalidArgumentError("lengths must lie in [0, T]");
      }
    }
    for (int i = 2; i < context->num_inputs(); ++i) {
      const bool agrees = i == 4 ? context->input(i).shape() == x.shape()
                                 : context->input(i).NumElements() == sequences->channels;
      if (!agrees) return absl::InvalidArgumentError("by_y must have x's shape, others be [C]");
    }
    return absl::OkStatus();
  }

  Affine ReadAffine(tf::OpKernelContext* context) const {
    return {Floats(context, 2), Floats(context, 3), clip_};
  }

  static const float* Floats(tf::OpKernelContext* context, int i) {
    return context->input(i).flat<float>().data();
  }

  static const T* Values(tf::OpKernelContext* context, int i) {
    return reinterpret_cast<const T*>(
        context->input(i).flat<typename InTensorFlow<T>::Type>().data());
  }

  // Allocates an output like x.
  static absl::Status LikeX(tf::OpKernelContext* context, T** values) {
    tf::Tensor* output;
    TF_RETURN_IF_ERROR(context->allocate_output(0, context->input(0).shape(), &output));
    *values = reinterpret_cast<T*>(output->flat<typename InTensorFlow<T>::Type>().data());
    return absl::OkStatus();
  }

  // Allocates both outputs [C], and the workspace.
  static absl::Status Sums(tf::OpKernelContext* context, const Sequences& sequences,
                           float* sums[2], tf::Tensor* workspace) {
    for (int i = 0; i < 2; ++i) {
      tf::Tensor* output;
      TF_RETURN_IF_ERROR(
          context->allocate_output(i, tf::TensorShape({sequences.channels}), &output));
      sums[i] = output->flat<float>().data();
    }
    const int64_t bytes = NormWorkspaceBytes(sequences);
    return context->allocate_temp(tf::DT_UINT8, tf::TensorShape({bytes}), workspace);
  }

 private:
  bool clip_ = false;
};

template <class T>
class MomentsOp : public NormBase<T> {
 public:
  using NormBase<T>::NormBase;

  void Compute(tf::OpKernelContext* context) override {
    Sequences sequences;
    float* moments[2];
    tf::Tensor workspace;
    OP_REQUIRES_OK(context, this->Read(context, &sequences));
    OP_REQUIRES_OK(context, this->Sums(context, sequences, moments, &workspace));
    Moments(sequences, this->Values(context, 0), moments[0], moments[1], workspace.data(),
            ThreadPool(context));
  }
};

template <class T>
class AffineOp : public NormBase<T> {
 public:
  using NormBase<T>::NormBase;

  void Compute(tf::OpKernelContext* context) override {
    Sequences sequences;
    T* y;
    OP_REQUIRES_OK(context, this->Read(context, &sequences));
    OP_REQUIRES_OK(context, this->LikeX(context, &y));
    ApplyAffine(sequences, this->ReadAffine(context), this->Values(context, 0), y,
                ThreadPool(context));
  }
};

template <class T>
class AffineSumsOp : public NormBase<T> {
 public:
  using NormBase<T>::NormBase;

  void Compute(tf::OpKernelContext* context) override {
    Sequences sequences;
    float* sums[2];
    tf::Tensor workspace;
    OP_REQUIRES_OK(context, this->Read(context, &sequences));
    OP_REQUIRES_OK(context, this->Sums(context, sequences, sums, &workspace));
    AffineSums(sequences, this->ReadAffine(context), this->Values(context, 0),
               this->Values(context, 4), this->Floats(context, 5), sums[0], sums[1],
               workspace.data(), ThreadPool(context));
  }
};

template <class T>
class AffineGradientOp : public NormBase<T> {
 public:
  using NormBase<T>::NormBase;

  void Compute(tf::OpKernelContext* context) override {
    Sequences sequences;
    T* by_x;
    OP_REQUIRES_OK(context, this->Read(context, &sequences));
    OP_REQUIRES_OK(context, this->LikeX(context, &by_x));
    AffineGradient(sequences, this->ReadAffine(context), this->Values(context, 0),
                   this->Values(context, 4), this->Floats(context, 5), this->Floats(context, 6),
                   by_x, ThreadPool(context));
  }
};

#define DS2_REGISTER(name, Kernel)                                                              \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tf::DEVICE_CPU).TypeConstraint<float>("T"),         \
                          Kernel<float>);                                                       \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tf::DEVICE_CPU).TypeConstraint<tf::bfloat16>("T"),  \
                          Kernel<Bfloat16>)
DS2_REGISTER("Ds2>SequenceMoments", MomentsOp);
DS2_REGISTER("Ds2>SequenceAffine", AffineOp);
DS2_REGISTER("Ds2>SequenceAffineSums", AffineSumsOp);
DS2_REGISTER("Ds2>SequenceAffineGradient", AffineGradientOp);
#undef DS2_REGISTER

}  // namespace
}  // namespace ds2
