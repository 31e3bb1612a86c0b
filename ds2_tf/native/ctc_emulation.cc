#include "ctc_emulation.h"

#include <algorithm>
#include <vector>

#include "ctc_kernel.h"
#include "ctc_kernel_recursion.h"
#include "ctc_kernel_rows.h"

namespace ds2 {
namespace {

// Fills memory that a GPU leaves undefined: a NaN as a float.
constexpr char kUndefined = static_cast<char>(0xff);

class EmulatedBlock {
 public:
  EmulatedBlock(int index, int num_threads, size_t shared_bytes, ThreadOrder order)
      : index_(index),
        num_threads_(num_threads),
        order_(order),
        shared_((shared_bytes + sizeof(double) - 1) / sizeof(double)) {
    std::fill_n(reinterpret_cast<char*>(shared_.data()), shared_.size() * sizeof(double),
                kUndefined);
  }

  int index() const { return index_; }

  template <typename T>
  T* Shared() {
    return reinterpret_cast<T*>(shared_.data());
  }

  template <typename Function>
  void Run(const Function& function) {
    for (int i = 0; i < num_threads_; ++i) {
      function(order_ == ThreadOrder::kForward ? i : num_threads_ - 1 - i);
    }
  }

 private:
  int index_;
  int num_threads_;
  ThreadOrder order_;
  std::vector<double> shared_;
};

template <typename T>
void RunKernels(const CtcKernelArguments& arguments, ThreadOrder order) {
  const CtcBatch& batch = arguments.batch;
  const int num_row_blocks = NumRowBlocks(batch);
  for (int i = 0; i < num_row_blocks; ++i) {
    EmulatedBlock block(i, kRowsThreads, kRowsSharedBytes, order);
    SoftmaxBody<T>(block, arguments);
  }
  for (int i = 0; i < batch.num_utterances; ++i) {
    EmulatedBlock block(i, arguments.plan.num_threads, arguments.plan.shared_bytes, order);
    RecursionBody<T>(block, arguments);
  }
  if (batch.gradients == nullptr) return;
  for (int i = 0; i < num_row_blocks; ++i) {
    EmulatedBlock block(i, kRowsThreads, kRowsSharedBytes, order);
    GradientBody<T>(block, arguments);
  }
}

}  // namespace

void CtcEmulatedLoss(const CtcBatch& batch, size_t shared_limit, ThreadOrder order) {
  const RecursionPlan plan = PlanRecursion(batch.num_frames, batch.max_labels, shared_limit);
  std::vector<char> workspace(CtcKernelWorkspaceBytes(batch, plan), kUndefined);
  const CtcKernelArguments arguments = DivideCtcKernelWorkspace(batch, plan, workspace.data());
  switch (batch.element_type) {
    case ElementType::kBfloat16:
      return RunKernels<Bfloat16>(arguments, order);
    case ElementType::kFloat16:
      return RunKernels<Float16>(arguments, order);
    default:
      return RunKernels<float>(arguments, order);
  }
}

}  // namespace ds2
