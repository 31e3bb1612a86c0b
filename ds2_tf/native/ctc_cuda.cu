// No TensorFlow header here: nvcc and TensorFlow's headers do not agree.

#include <cuda_runtime.h>

#include "ctc_cuda.h"
#include "ctc_kernel.h"
#include "ctc_kernel_recursion.h"
#include "ctc_kernel_rows.h"

namespace ds2 {
namespace {

class CudaBlock {
 public:
  __device__ int index() const { return blockIdx.x; }

  template <typename T>
  __device__ T* Shared() {
    extern __shared__ double shared[];
    return reinterpret_cast<T*>(shared);
  }

  template <typename Function>
  __device__ void Run(const Function& function) {
    function(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
};

template <typename T>
__global__ void __launch_bounds__(kRowsThreads) SoftmaxKernel(CtcKernelArguments arguments) {
  CudaBlock block;
  SoftmaxBody<T>(block, arguments);
}

template <typename T>
__global__ void __launch_bounds__(kMaxRecursionThreads)
    RecursionKernel(CtcKernelArguments arguments) {
  CudaBlock block;
  RecursionBody<T>(block, arguments);
}

template <typename T>
__global__ void __launch_bounds__(kRowsThreads) GradientKernel(CtcKernelArguments arguments) {
  CudaBlock block;
  GradientBody<T>(block, arguments);
}

cudaError_t PlanForDevice(const CtcBatch& batch, RecursionPlan* plan) {
  int device;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  int shared_limit;
  error = cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  *plan = PlanRecursion(batch.num_frames, batch.max_labels, shared_limit);
  return cudaSuccess;
}

template <typename T>
cudaError_t Launch(const CtcKernelArguments& arguments, cudaStream_t stream) {
  const CtcBatch& batch = arguments.batch;
  const RecursionPlan& plan = arguments.plan;
  // CUDA refuses more than 48 KB of shared memory to a kernel that has not asked for it.
  const cudaError_t error =
      cudaFuncSetAttribute(RecursionKernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(plan.shared_bytes));
  if (error != cudaSuccess) return error;
  const int num_row_blocks = NumRowBlocks(batch);
  // An empty grid is an error to CUDA.
  if (num_row_blocks > 0) {
    SoftmaxKernel<T><<<num_row_blocks, kRowsThreads, kRowsSharedBytes, stream>>>(arguments);
  }
  if (batch.num_utterances > 0) {
    RecursionKernel<T>
        <<<batch.num_utterances, plan.num_threads, plan.shared_bytes, stream>>>(arguments);
  }
  if (num_row_blocks > 0 && batch.gradients != nullptr) {
    GradientKernel<T><<<num_row_blocks, kRowsThreads, kRowsSharedBytes, stream>>>(arguments);
  }
  return cudaGetLastError();
}

const char* Message(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* CtcCudaProblem() {
  cudaFuncAttributes attributes;
  return Message(cudaFuncGetAttributes(&attributes, RecursionKernel<float>));
}

const char* CtcCudaCopyToDevice(const void* host, size_t bytes, void* device, void* stream) {
  return Message(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice,
                                 static_cast<cudaStream_t>(stream)));
}

const char* CtcCudaWorkspaceBytes(const CtcBatch& batch, size_t* bytes) {
  RecursionPlan plan;
  const cudaError_t error = PlanForDevice(batch, &plan);
  if (error == cudaSuccess) *bytes = CtcKernelWorkspaceBytes(batch, plan);
  return Message(error);
}

const char* CtcCudaLoss(const CtcBatch& batch, void* workspace, void* stream) {
  RecursionPlan plan;
  const cudaError_t error = PlanForDevice(batch, &plan);
  if (error != cudaSuccess) return Message(error);
  const CtcKernelArguments arguments = DivideCtcKernelWorkspace(batch, plan, workspace);
  switch (batch.element_type) {
    case ElementType::kBfloat16:
      return Message(Launch<Bfloat16>(arguments, static_cast<cudaStream_t>(stream)));
    case ElementType::kFloat16:
      return Message(Launch<Float16>(arguments, static_cast<cudaStream_t>(stream)));
    default:
      return Message(Launch<float>(arguments, static_cast<cudaStream_t>(stream)));
  }
}

}  // namespace ds2
