// The convolution for ctypes: plain C functions over plain arrays.

#include <cmath>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/dft_conv.h"
#include "tests/native/threads.h"

namespace {

ds2::DftConvShape Shape(const int64_t* s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]};
}

// So many bytes of NaN at an odd address, and a margin that nobody may write to.
class Workspace {
 public:
  explicit Workspace(size_t bytes)
      : num_bytes_(bytes), storage_(bytes / sizeof(float) + 2 * kMargin, std::nanf("")) {
    for (size_t i = 0; i < kMargin * sizeof(float); ++i) end()[i] = kMark;
  }
  char* data() { return reinterpret_cast<char*>(storage_.data()) + 1; }
  bool IsIntact() {
    for (size_t i = 0; i < kMargin * sizeof(float); ++i) {
      if (end()[i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kMargin = 64;
  static constexpr char kMark = 77;

  char* end() { return data() + num_bytes_; }

  size_t num_bytes_;
  std::vector<float> storage_;
};

}  // namespace

extern "C" {

int32_t ds2_best_instruction_set() { return static_cast<int32_t>(ds2::BestInstructionSet()); }

const char* ds2_why_unsupported(const int64_t* shape) {
  return ds2::DftConv::WhyUnsupported(Shape(shape));
}

// These return whether the workspace sufficed.
bool ds2_convolve(const int64_t* shape, int32_t set, int32_t num_threads, const float* x,
                  const int32_t* lengths, const float* kernel, float* y) {
  const ds2::DftConv convolution(Shape(shape), num_threads, static_cast<ds2::InstructionSet>(set));
  Workspace workspace(convolution.ForwardWorkspaceBytes());
  convolution.Forward(x, lengths, kernel, y, workspace.data(), ds2::Threads(num_threads));
  return workspace.IsIntact();
}

bool ds2_convolution_gradients(const int64_t* shape, int32_t set, int32_t num_threads,
                               const float* x, const int32_t* lengths, const float* kernel,
                               const float* y_gradient, float* x_gradient,
                               float* kernel_gradient) {
  const ds2::DftConv convolution(Shape(shape), num_threads, static_cast<ds2::InstructionSet>(set));
  Workspace workspace(convolution.GradientsWorkspaceBytes(x_gradient != nullptr,
                                                          kernel_gradient != nullptr));
  convolution.Gradients(x, lengths, kernel, y_gradient, x_gradient, kernel_gradient,
                        workspace.data(), ds2::Threads(num_threads));
  return workspace.IsIntact();
}

}  // extern "C"
