// The CTC library for ctypes: plain C functions over plain arrays.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/ctc.h"
#include "ds2_tf/native/ctc_emulation.h"
#include "tests/native/threads.h"

extern "C" {

// Returns the number of instruction sets that the processor has and CTC makes use of.
int32_t ds2_num_instruction_sets() {
  return 1 + static_cast<int32_t>(
                 std::min(ds2::BestInstructionSet(), ds2::InstructionSet::kAvx512));
}

// Fills losses [B], statuses [B] and, unless it is null, gradients like logits; strides are in
// elements. shared_limit -1 runs the CPU's kernel; else the GPU's is emulated with so many bytes of
// shared memory, its threads in reverse order if `reverses` says so.
void ds2_ctc(int32_t element_type, const void* logits, void* gradients, int64_t utterance_stride,
             int64_t frame_stride, int32_t num_utterances, int32_t num_frames, int32_t num_symbols,
             int32_t blank, const int32_t* logit_lengths, const int32_t* labels,
             const int32_t* label_lengths, int32_t max_labels, float* losses, int32_t* statuses,
             int32_t num_workers, int32_t instruction_set, int64_t shared_limit,
             int32_t reverses) {
  ds2::CtcBatch batch;
  batch.element_type = static_cast<ds2::ElementType>(element_type);
  batch.logits = logits;
  batch.gradients = gradients;
  batch.utterance_stride = utterance_stride;
  batch.frame_stride = frame_stride;
  batch.num_utterances = num_utterances;
  batch.num_frames = num_frames;
  batch.num_symbols = num_symbols;
  batch.blank = blank;
  batch.logit_lengths = logit_lengths;
  batch.labels = labels;
  batch.label_lengths = label_lengths;
  batch.max_labels = max_labels;
  batch.losses = losses;
  batch.statuses = reinterpret_cast<ds2::CtcStatus*>(statuses);
  if (shared_limit >= 0) {
    ds2::CtcEmulatedLoss(batch, shared_limit,
                         reverses ? ds2::ThreadOrder::kBackward : ds2::ThreadOrder::kForward);
    return;
  }
  std::vector<char> workspace(ds2::CtcBatchWorkspaceBytes(batch, num_workers));
  ds2::CtcBatchLoss(batch, workspace.data(), num_workers, ds2::Threads(num_workers),
                    static_cast<ds2::InstructionSet>(instruction_set));
}

// Returns whether the one float32 utterance [T, V] needed the wide range.
int32_t ds2_ctc_uses_wide_range(const float* logits, float* gradients, int32_t num_frames,
                                int32_t num_symbols, int32_t blank, const int32_t* labels,
                                int32_t num_labels, int32_t instruction_set) {
  ds2::CtcUtterance utterance;
  utterance.element_type = ds2::ElementType::kFloat32;
  utterance.logits = logits;
  utterance.gradients = gradients;
  utterance.frame_stride = num_symbols;
  utterance.num_frames = num_frames;
  utterance.num_padded_frames = num_frames;
  utterance.num_symbols = num_symbols;
  utterance.blank = blank;
  utterance.labels = labels;
  utterance.num_labels = num_labels;
  std::vector<char> workspace(ds2::CtcWorkspaceBytes(num_frames, num_labels, num_symbols));
  return ds2::CtcLoss(utterance, workspace.data(),
                      static_cast<ds2::InstructionSet>(instruction_set))
      .used_wide_range;
}

}  // extern "C"
