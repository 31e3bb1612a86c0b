#include <algorithm>

#include "ctc_kernel.h"

namespace ds2 {
namespace {

constexpr int kMinThreads = 32;
constexpr int kMaxTileFrames = 32;
// Shared memory that every GPU gives a block without being asked.
constexpr size_t kOrdinarySharedBytes = 48 * 1024;
constexpr size_t kAlignment = 256;

size_t RoundUp(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// The largest number of frames in [0, kMaxTileFrames] whose tiles fit.
int TileFramesThatFit(size_t bytes, size_t bytes_per_frame) {
  return static_cast<int>(std::min<size_t>(bytes / bytes_per_frame, kMaxTileFrames));
}

// Hands out aligned parts of the workspace; from a null base it only counts.
class Divider {
 public:
  explicit Divider(void* base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  template <typename T>
  void Take(size_t count, T** array) {
    *array = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += RoundUp(count * sizeof(T), kAlignment);
  }

  size_t bytes() const { return bytes_; }

 private:
  uintptr_t base_;
  size_t bytes_ = 0;
};

size_t Divide(const CtcBatch& batch, const RecursionPlan& plan, void* workspace,
              CtcKernelArguments* arguments) {
  const size_t utterances = batch.num_utterances;
  const size_t rows = utterances * batch.num_frames;
  arguments->batch = batch;
  arguments->plan = plan;
  arguments->max_states = 2 * batch.max_labels + 1;
  Divider divider(workspace);
  divider.Take(rows, &arguments->row_largest);
  divider.Take(rows, &arguments->row_sums);
  divider.Take(utterances * batch.max_labels, &arguments->label_order);
  divider.Take(rows * arguments->max_states, &arguments->products);
  divider.Take(utterances * plan.global_bytes, &arguments->columns);
  return divider.bytes();
}

}  // namespace

RecursionPlan PlanRecursion(int num_frames, int max_labels, size_t shared_limit) {
  const int states = 2 * max_labels + 1;
  const size_t emissions = max_labels + 1;
  RecursionPlan plan;
  plan.num_threads = kMinThreads;
  while (plan.num_threads < kMaxRecursionThreads && plan.num_threads < states) {
    plan.num_threads *= 2;
  }
  const size_t reduction_bytes = plan.num_threads * (sizeof(double) + 2 * sizeof(int32_t));
  const size_t label_bytes = RoundUp(max_labels * sizeof(int32_t), 8);
  const size_t fixed_bytes = label_bytes + 2 * states * sizeof(ScaledFloat);
  const size_t alpha_bytes = num_frames * sizeof(ScaledFloat) * states;
  const size_t emission_bytes = emissions * sizeof(ScaledFloat);
  const size_t alpha_tile_bytes = states * sizeof(ScaledFloat);

  // Alpha in shared memory, if at least some frames' emissions fit beside it.
  size_t used_bytes = reduction_bytes + fixed_bytes + alpha_bytes;
  if (used_bytes + 4 * emission_bytes <= shared_limit) {
    plan.tile_frames = TileFramesThatFit(shared_limit - used_bytes, emission_bytes);
    plan.alphas_are_shared = true;
    plan.columns_are_shared = true;
    plan.shared_bytes = used_bytes + plan.tile_frames * emission_bytes;
    plan.global_bytes = 0;
    return plan;
  }
  plan.alphas_are_shared = false;
  used_bytes = reduction_bytes + fixed_bytes;
  const size_t tile_bytes = emission_bytes + alpha_tile_bytes;
  for (const size_t limit : {std::min(kOrdinarySharedBytes, shared_limit), shared_limit}) {
    if (used_bytes + tile_bytes > limit) continue;
    plan.tile_frames = TileFramesThatFit(limit - used_bytes, tile_bytes);
    plan.columns_are_shared = true;
    plan.shared_bytes = used_bytes + plan.tile_frames * tile_bytes;
    plan.global_bytes = 0;
    return plan;
  }
  plan.tile_frames = kMaxTileFrames;
  plan.columns_are_shared = false;
  plan.shared_bytes = reduction_bytes;
  plan.global_bytes = RoundUp(fixed_bytes + plan.tile_frames * tile_bytes, kAlignment);
  return plan;
}

size_t CtcKernelWorkspaceBytes(const CtcBatch& batch, const RecursionPlan& plan) {
  CtcKernelArguments arguments;
  return Divide(batch, plan, nullptr, &arguments);
}

CtcKernelArguments DivideCtcKernelWorkspace(const CtcBatch& batch, const RecursionPlan& plan,
                                            void* workspace) {
  CtcKernelArguments arguments;
  Divide(batch, plan, workspace, &arguments);
  return arguments;
}

}  // namespace ds2
