#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "ds2_tf/native/ctc_cuda.h"
#include "tests/native/ctc_device.h"

namespace ds2 {
namespace test {
namespace {

double last_device_ms = 0.0;

void ExitOn(const char* error) {
  if (error == nullptr) return;
  std::printf("CUDA: %s\n", error);
  std::exit(1);
}

void ExitOn(cudaError_t error) {
  if (error != cudaSuccess) ExitOn(cudaGetErrorString(error));
}

// A copy of a host array on the device.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(T* host, size_t count) : host_(host), bytes_(count * sizeof(T)) {
    ExitOn(cudaMalloc(&device_, bytes_ + 1));
    if (host_ != nullptr) ExitOn(cudaMemcpy(device_, host_, bytes_, cudaMemcpyDefault));
  }
  ~DeviceArray() { cudaFree(device_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return static_cast<T*>(device_); }
  void CopyBack() const { ExitOn(cudaMemcpy(host_, device_, bytes_, cudaMemcpyDefault)); }

 private:
  T* host_;
  size_t bytes_;
  void* device_ = nullptr;
};

template <typename T>
T* Mutable(const T* array) {
  return const_cast<T*>(array);
}

}  // namespace

bool HasDevice() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Float32 alone, as ctc_test.cc has it.
void RunOnDevice(const CtcBatch& host) {
  const size_t utterances = host.num_utterances;
  const size_t size = utterances * host.num_frames * host.num_symbols;
  DeviceArray<float> logits(static_cast<float*>(Mutable(host.logits)), size);
  DeviceArray<float> gradients(static_cast<float*>(host.gradients), size);
  DeviceArray<int32_t> logit_lengths(Mutable(host.logit_lengths), utterances);
  DeviceArray<int32_t> labels(Mutable(host.labels), utterances * host.max_labels);
  DeviceArray<int32_t> label_lengths(Mutable(host.label_lengths), utterances);
  DeviceArray<float> losses(host.losses, utterances);
  DeviceArray<CtcStatus> statuses(host.statuses, utterances);
  CtcBatch batch = host;
  batch.logits = logits.get();
  batch.gradients = gradients.get();
  batch.logit_lengths = logit_lengths.get();
  batch.labels = labels.get();
  batch.label_lengths = label_lengths.get();
  batch.losses = losses.get();
  batch.statuses = statuses.get();
  size_t bytes;
  ExitOn(CtcCudaWorkspaceBytes(batch, &bytes));
  DeviceArray<char> workspace(nullptr, bytes);

  cudaEvent_t start, end;
  ExitOn(cudaEventCreate(&start));
  ExitOn(cudaEventCreate(&end));
  ExitOn(cudaEventRecord(start));
  ExitOn(CtcCudaLoss(batch, workspace.get(), nullptr));
  ExitOn(cudaEventRecord(end));
  ExitOn(cudaEventSynchronize(end));
  float milliseconds;
  ExitOn(cudaEventElapsedTime(&milliseconds, start, end));
  last_device_ms = milliseconds;
  ExitOn(cudaEventDestroy(start));
  ExitOn(cudaEventDestroy(end));
  gradients.CopyBack();
  losses.CopyBack();
  statuses.CopyBack();
}

double LastDeviceMs() { return last_device_ms; }

}  // namespace test
}  // namespace ds2
