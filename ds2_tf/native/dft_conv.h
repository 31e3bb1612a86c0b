// Two-dimensional convolution over padded sequences by tiled discrete Fourier transforms, on the
// CPU: forward, and gradients with respect to the input and the kernel.
//
// Free of TensorFlow. The caller owns all memory and brings the threads. Results are the same bit
// for bit from run to run and for any number of threads.
//
// y[t', f', n] = sum over kt, kf, c of
//     x[stride_time t' + kt - (kernel_time - 1) / 2, stride_frequency f' + kf - ..., c]
//     kernel[kt, kf, c, n]
// where x is zero outside of the tensor and past its utterance's length: nothing that lies there
// is read. An utterance of L > 0 frames gives (L - 1) / stride_time + 1; y is zero past them.
//
// Axes: B utterances, T frames, F frequency bins, C channels, N filters.

#ifndef DS2_TF_NATIVE_DFT_CONV_H_
#define DS2_TF_NATIVE_DFT_CONV_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ds2_tf/native/instruction_set.h"
#include "ds2_tf/native/parallel.h"

namespace ds2 {

struct DftConvShape {
  int64_t batch;             // B
  int64_t time;              // T
  int64_t frequency;         // F
  int64_t channels;          // C
  int64_t filters;           // N
  int64_t kernel_time;       // odd
  int64_t kernel_frequency;  // odd
  int64_t stride_time;
  int64_t stride_frequency;

  // The number of frames and bins of y, T' and F'.
  int64_t OutputTime() const { return time == 0 ? 0 : (time - 1) / stride_time + 1; }
  int64_t OutputFrequency() const {
    return frequency == 0 ? 0 : (frequency - 1) / stride_frequency + 1;
  }
};

// A convolution of one shape. Immutable: several threads may use one at the same time, each call
// with a workspace of its own.
class DftConv {
 public:
  // Returns why this shape has no such convolution, or nullptr if it has.
  static const char* WhyUnsupported(const DftConvShape& shape);

  // `shape` must be supported and `set` one that the processor has; its results differ in the last
  // bits from another's. `num_threads` is a hint for cutting the work, on which no result depends.
  explicit DftConv(const DftConvShape& shape, int num_threads = 1,
                   InstructionSet set = BestInstructionSet());
  ~DftConv();
  DftConv(const DftConv&) = delete;
  DftConv& operator=(const DftConv&) = delete;

  // Returns the bytes of workspace that Forward needs.
  size_t ForwardWorkspaceBytes() const;

  // Returns the bytes of workspace that Gradients needs for the wanted ones.
  size_t GradientsWorkspaceBytes(bool input_gradient, bool kernel_gradient) const;

  // Computes y [B, T', F', N] of x [B, T, F, C] and kernel [kernel_time, kernel_frequency, C, N].
  // `lengths` [B] are cut to [0, T].
  void Forward(const float* x, const int32_t* lengths, const float* kernel, float* y,
               void* workspace, const Parallel& parallel) const;

  // Computes the gradients of sum(y * y_gradient), like x and kernel; a gradient that is nullptr
  // is not computed, and what it alone needs may be nullptr too: `kernel` for the input's, `x`
  // for the kernel's. What lies past the lengths in y_gradient is ignored, in x_gradient zero.
  void Gradients(const float* x, const int32_t* lengths, const float* kernel,
                 const float* y_gradient, float* x_gradient, float* kernel_gradient,
                 void* workspace, const Parallel& parallel) const;

 private:
  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace ds2

#endif  // DS2_TF_NATIVE_DFT_CONV_H_
