// Connectionist temporal classification on the CPU: loss, and gradient with respect to the logits.
//
// Free of TensorFlow. The caller owns all memory and brings the threads. Results are the same bit
// for bit from run to run and for any number of threads, because one utterance is one thread's
// work and its sums have a fixed order.
//
// Source: Graves et al. 2006; Deep Speech 2, section 3.
//
// Axes: B utterances, T frames, V symbols with the blank, U labels.

#ifndef DS2_TF_NATIVE_CTC_H_
#define DS2_TF_NATIVE_CTC_H_

#include <cstddef>
#include <cstdint>

#include "instruction_set.h"
#include "parallel.h"

namespace ds2 {

enum class ElementType : int32_t { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2 };

// What became of an utterance. Unless it is kOk, its gradient is zero.
enum class CtcStatus : int32_t {
  kOk = 0,
  // Fewer frames than labels and blanks between equal neighbours: the loss is +infinity.
  kInfeasible = 1,
  // Every path goes through a symbol whose logit is -infinity: the loss is +infinity.
  kImpossible = 2,
  // A label is the blank or outside [0, V): the loss is NaN.
  kInvalidLabel = 3,
  // A length is negative or exceeds the tensor: the loss is NaN.
  kInvalidLength = 4,
  // A frame has no softmax: a logit is NaN or +infinity, or all are -infinity. The loss is NaN.
  kInvalidLogit = 5,
};

struct CtcUtterance {
  ElementType element_type;  // of logits and gradients
  const void* logits;        // [T, V], each row contiguous
  void* gradients;           // like logits; nullptr computes the loss alone
  ptrdiff_t frame_stride;    // elements from one frame to the next
  int num_frames;            // frames that count
  int num_padded_frames;     // frames in memory; the gradient of those past num_frames is zeroed
  int num_symbols;           // V
  int blank;                 // the blank's symbol
  const int32_t* labels;     // [U]; may be nullptr if there are none
  int num_labels;            // U
};

struct CtcResult {
  CtcStatus status;
  // -log p(labels | logits) in nats.
  float loss;
  // Whether the range of double did not suffice, so that every state carried its own exponent
  // (slower).
  bool used_wide_range;
};

// Returns the bytes that one utterance of at most these dimensions needs.
size_t CtcWorkspaceBytes(int num_frames, int num_labels, int num_symbols);

// Computes one utterance. `workspace` has CtcWorkspaceBytes for its dimensions or larger ones.
// `instruction_set` must be one that the processor has; the results of different ones differ in the
// last bits.
CtcResult CtcLoss(const CtcUtterance& utterance, void* workspace, InstructionSet instruction_set);

struct CtcBatch {
  ElementType element_type;
  // Batch-major [B, T, V] or time-major [T, B, V] by the strides (in elements).
  const void* logits;
  void* gradients;  // like logits; nullptr computes the losses alone
  ptrdiff_t utterance_stride;
  ptrdiff_t frame_stride;
  int num_utterances;
  int num_frames;
  int num_symbols;
  int blank;
  const int32_t* logit_lengths;  // [B]
  const int32_t* labels;         // [B, max_labels], padded with anything
  const int32_t* label_lengths;  // [B]
  int max_labels;
  float* losses;        // [B]
  CtcStatus* statuses;  // [B]
};

// Returns what is wrong with an utterance's lengths and labels, or with their fit: all of its status
// that does not depend on logits. Reads neither these nor the results.
CtcStatus CheckCtcTarget(const CtcBatch& batch, int utterance);

// Returns the bytes of workspace with which `num_workers` threads can work on the batch.
size_t CtcBatchWorkspaceBytes(const CtcBatch& batch, int num_workers);

// Computes every utterance of the batch as `num_workers` tasks. `workspace` has
// CtcBatchWorkspaceBytes.
void CtcBatchLoss(const CtcBatch& batch, void* workspace, int num_workers, const Parallel& parallel,
                  InstructionSet instruction_set = BestInstructionSet());

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_H_
