#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "ctc.h"
#include "ctc_plan.h"

namespace ds2 {
namespace {

constexpr size_t kAlignment = 64;

size_t ElementBytes(ElementType type) { return type == ElementType::kFloat32 ? 4 : 2; }

// Zeroes the gradient of the frames from `first` on. Zero is all bits zero in every type.
void ZeroGradients(const CtcUtterance& utterance, int first) {
  if (utterance.gradients == nullptr) return;
  const size_t element_bytes = ElementBytes(utterance.element_type);
  for (int t = first; t < utterance.num_padded_frames; ++t) {
    memset(static_cast<char*>(utterance.gradients) + t * utterance.frame_stride * element_bytes, 0,
           utterance.num_symbols * element_bytes);
  }
}

// Returns kOk if the utterance can be computed, else why not.
CtcStatus Check(const CtcUtterance& utterance) {
  const int32_t* labels = utterance.labels;
  int needed_frames = utterance.num_labels;
  for (int u = 0; u < utterance.num_labels; ++u) {
    if (labels[u] < 0 || labels[u] >= utterance.num_symbols || labels[u] == utterance.blank) {
      return CtcStatus::kInvalidLabel;
    }
    if (u > 0 && labels[u] == labels[u - 1]) ++needed_frames;
  }
  return utterance.num_frames < needed_frames ? CtcStatus::kInfeasible : CtcStatus::kOk;
}

CtcUtterance UtteranceOf(const CtcBatch& batch, int b) {
  const ptrdiff_t offset = b * batch.utterance_stride * ElementBytes(batch.element_type);
  CtcUtterance utterance;
  utterance.element_type = batch.element_type;
  utterance.logits = static_cast<const char*>(batch.logits) + offset;
  utterance.gradients =
      batch.gradients == nullptr ? nullptr : static_cast<char*>(batch.gradients) + offset;
  utterance.frame_stride = batch.frame_stride;
  utterance.num_frames = batch.logit_lengths[b];
  utterance.num_padded_frames = batch.num_frames;
  utterance.num_symbols = batch.num_symbols;
  utterance.blank = batch.blank;
  utterance.labels = batch.labels + static_cast<ptrdiff_t>(b) * batch.max_labels;
  utterance.num_labels = batch.label_lengths[b];
  return utterance;
}

bool LengthsAreValid(const CtcBatch& batch, int b) {
  return batch.logit_lengths[b] >= 0 && batch.logit_lengths[b] <= batch.num_frames &&
         batch.label_lengths[b] >= 0 && batch.label_lengths[b] <= batch.max_labels;
}

}  // namespace

CtcStatus CheckCtcTarget(const CtcBatch& batch, int utterance) {
  return LengthsAreValid(batch, utterance) ? Check(UtteranceOf(batch, utterance))
                                           : CtcStatus::kInvalidLength;
}

CtcResult CtcLoss(const CtcUtterance& utterance, void* workspace, InstructionSet instruction_set) {
  CtcResult result = {Check(utterance), 0.0f, false};
  if (result.status == CtcStatus::kOk) {
    result = CtcFunctionFor(instruction_set)(MakeCtcPlan(utterance, workspace));
  } else {
    result.loss = result.status == CtcStatus::kInfeasible ? INFINITY : NAN;
  }
  ZeroGradients(utterance, result.status == CtcStatus::kOk ? utterance.num_frames : 0);
  return result;
}

size_t CtcBatchWorkspaceBytes(const CtcBatch& batch, int num_workers) {
  return CtcWorkspaceBytes(batch.num_frames, batch.max_labels, batch.num_symbols) * num_workers +
         kAlignment;
}

void CtcBatchLoss(const CtcBatch& batch, void* workspace, int num_workers,
                  const Parallel& parallel, InstructionSet instruction_set) {
  const size_t worker_bytes =
      CtcWorkspaceBytes(batch.num_frames, batch.max_labels, batch.num_symbols);
  // Workers take the next utterance as they finish one: lengths differ.
  std::atomic<int> next_utterance(0);
  parallel.run(num_workers, [&](int64_t worker) {
    void* worker_workspace = static_cast<char*>(workspace) + worker * worker_bytes;
    for (int b = next_utterance++; b < batch.num_utterances; b = next_utterance++) {
      const CtcUtterance utterance = UtteranceOf(batch, b);
      CtcResult result = {CtcStatus::kInvalidLength, NAN, false};
      if (LengthsAreValid(batch, b)) {
        result = CtcLoss(utterance, worker_workspace, instruction_set);
      } else {
        ZeroGradients(utterance, 0);
      }
      batch.losses[b] = result.loss;
      batch.statuses[b] = result.status;
    }
  });
}

}  // namespace ds2
