// Registers Ds2>CtcLoss for GPUs; compiled where nvcc compiles ctc_cuda.cu.

#include "ds2_tf/native/ctc_cuda_op.h"

#include "ds2_tf/native/ctc_cuda.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ds2 {
namespace {

namespace tf = ::tensorflow;

#define REGISTER(T) \
  REGISTER_KERNEL_BUILDER(Name("Ds2>CtcLoss") \
                              .Device(tf::DEVICE_GPU) \
                              .HostMemory("logit_lengths") \
                              .HostMemory("labels") \
                              .HostMemory("label_lengths") \
                              .TypeConstraint<T>("T"), \
                          CtcCudaLossOp)
REGISTER(float);
REGISTER(tf::bfloat16);
REGISTER(Eigen::half);
#undef REGISTER

}  // namespace
}  // namespace ds2

// For ops.py, which asks before it uses the kernels.
extern "C" __attribute__((visibility("default"))) const char* ds2_cuda_problem() {
  return ds2::CtcCudaProblem();
}
