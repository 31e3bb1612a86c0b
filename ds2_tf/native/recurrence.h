// The recurrence of Deep Speech 2: h[t] = cell(x[t], U h[t - 1]) over projected inputs x, forward
// or in both directions, and its gradient. Padding is neither read nor computed.
//
// B utterances, T frames, D directions, H units, G = H values a frame for the clipped ReLU and 3 H
// for the gated unit. Arrays without strides are contiguous. Sources: Deep Speech 2, sections 3.2,
// 3.3 and appendix.

#ifndef DS2_TF_NATIVE_RECURRENCE_H_
#define DS2_TF_NATIVE_RECURRENCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/gemm_kernels.h"
#include "ds2_tf/native/parallel.h"

namespace ds2 {

enum class RecurrentCell {
  kClippedRelu = 0,  // h = f(x + U h_prev), f(a) = min(max(a, 0), 20)
  kGru = 1,          // gates z, r, then the candidate: h = (1 - z) h_prev + z f(x + r (U h_prev))
};

struct RecurrenceConfig {
  RecurrentCell cell;
  int64_t directions;  // 1, or 2: the second runs backward from each utterance's last frame
  int64_t units;
  const Kernels* kernels;  // of `FindKernels`

  int64_t gates() const { return cell == RecurrentCell::kGru ? 3 : 1; }
};

// The order in which frames run: in step s all utterances longer than s, longest first. "Packed"
// arrays hold one row for each pair of step and utterance in this order.
class RecurrencePlan {
 public:
  // `lengths` [B] lie in [0, T].
  RecurrencePlan(const int32_t* lengths, int64_t num_utterances);

  int64_t num_utterances() const { return utterances_.size(); }
  int64_t num_steps() const { return offsets_.size() - 1; }
  // The number of packed rows: the sum of all lengths.
  int64_t num_frames() const { return offsets_.back(); }
  // The first packed row of a step.
  int64_t offset(int64_t step) const { return offsets_[step]; }
  // The number of utterances in a step; these are the first ranks.
  int64_t active(int64_t step) const { return offsets_[step + 1] - offsets_[step]; }
  // Which utterance has a rank, and its length.
  int64_t utterance(int64_t rank) const { return utterances_[rank]; }
  int64_t length(int64_t rank) const { return lengths_[rank]; }
  int64_t rank(int64_t utterance) const { return ranks_[utterance]; }

 private:
  std::vector<int64_t> utterances_;
  std::vector<int64_t> ranks_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> offsets_;
};

// A frame's values are contiguous: those of direction d, utterance b, frame t start at
// data + d * direction_stride + b * utterance_stride + t * frame_stride. If the directions share
// the input, direction_stride is 0, also for the gradient, where it then means a sum.
template <class T>
struct Frames {
  T* data;
  int64_t direction_stride;
  int64_t utterance_stride;
  int64_t frame_stride;

  T* At(int64_t direction, int64_t utterance, int64_t frame) const {
    return data + direction * direction_stride + utterance * utterance_stride +
           frame * frame_stride;
  }
};

struct RecurrenceForward {
  Frames<const float> projected;
  const float* weights;  // [D, H, G]
  const float* initial;  // [D, B, H], or null for zeros
  float* previous;       // [D, num_frames, H] packed: the state before each frame; for the gradient
  float* kept;           // [D, num_frames, 3 H] packed: for the gradient of the gated unit, or null
  float* outputs;        // [B, T, H], the directions summed, 0 past each length
  float* final;          // [D, B, H], the state after each direction's last frame
};

// Bytes of workspace, to be aligned to 64.
size_t ForwardWorkspaceBytes(const RecurrenceConfig& config, const RecurrencePlan& plan,
                             int num_threads);

void RunForward(const RecurrenceConfig& config, const RecurrencePlan& plan,
                const RecurrenceForward& arrays, int64_t num_frames, void* workspace,
                const Parallel& parallel);

struct RecurrenceBackward {
  Frames<const float> projected;  // as in the forward pass; read for the gated unit only
  const float* weights;
  const float* previous;  // as the forward pass left them, like `kept` and `final`
  const float* kept;
  const float* final;
  const float* by_outputs;     // [B, T, H]; not read past each length
  const float* by_final;       // [D, B, H], or null for zeros
  Frames<float> by_projected;  // 0 past each length
  float* by_weights;           // [D, H, G]
  float* by_initial;           // [D, B, H], or null
};

size_t BackwardWorkspaceBytes(const RecurrenceConfig& config, const RecurrencePlan& plan,
                              int num_threads);

void RunBackward(const RecurrenceConfig& config, const RecurrencePlan& plan,
                 const RecurrenceBackward& arrays, int64_t num_frames, void* workspace,
                 const Parallel& parallel);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_RECURRENCE_H_
