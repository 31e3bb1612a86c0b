// The recurrence and the matrix product for ctypes: plain C functions over plain arrays.

#include <cmath>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/gemm.h"
#include "ds2_tf/native/gemm_bfloat16.h"
#include "ds2_tf/native/recurrence.h"
#include "tests/native/threads.h"

namespace {

// Of exactly so many bytes, filled with NaN, so that sanitizers and results show any misuse.
struct Workspace {
  explicit Workspace(size_t bytes) : storage(bytes / sizeof(float) + 16, std::nanf("")) {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    data = reinterpret_cast<void*>((address + 63) / 64 * 64);
  }
  std::vector<float> storage;
  void* data;
};

// The number that stands for emulated tiles.
constexpr int32_t kEmulatedAmx = 100;

const ds2::Kernels& Kernels(int32_t precision, int32_t set) {
  if (set == kEmulatedAmx) return ds2::EmulatedAmxKernels();
  return ds2::FindKernels(static_cast<ds2::Precision>(precision),
                          static_cast<ds2::InstructionSet>(set));
}

ds2::RecurrenceConfig Config(int32_t cell, int32_t precision, int32_t set, int64_t directions,
                             int64_t units) {
  return {static_cast<ds2::RecurrentCell>(cell), directions, units, &Kernels(precision, set)};
}

}  // namespace

extern "C" {

int32_t ds2_best_instruction_set() { return static_cast<int32_t>(ds2::BestInstructionSet()); }

void ds2_multiply(int32_t precision, int32_t set, int32_t num_threads, int64_t rows,
                  int64_t columns, int64_t depth, const float* a, int64_t a_stride,
                  int32_t a_transposed, const float* b, int64_t b_stride, int32_t b_transposed,
                  float* c, int64_t c_stride, int32_t accumulate) {
  const ds2::Kernels& kernels = Kernels(precision, set);
  Workspace workspace(ds2::MultiplyWorkspaceBytes(kernels, num_threads));
  ds2::Multiply(kernels,
                {{rows, columns, depth, a, a_stride, a_transposed != 0, b, b_stride,
                  b_transposed != 0, c, c_stride, accumulate != 0}},
                workspace.data, ds2::Threads(num_threads));
}

// Projected inputs are [B, T, D * G], or [B, T, G] if `shared`. Fills outputs and states; unless
// by_outputs is null also the gradients.
void ds2_recurrence(int32_t cell, int32_t precision, int32_t set, int32_t num_threads,
                    int32_t shared, int64_t directions, int64_t num_utterances, int64_t num_frames,
                    int64_t units, const int32_t* lengths, const float* projected,
                    const float* weights, const float* initial, float* outputs, float* final,
                    const float* by_outputs, const float* by_final, float* by_projected,
                    float* by_weights, float* by_initial) {
  const ds2::RecurrenceConfig config = Config(cell, precision, set, directions, units);
  const ds2::RecurrencePlan plan(lengths, num_utterances);
  const ds2::Parallel parallel = ds2::Threads(num_threads);
  const int64_t values = config.gates() * units;
  const int64_t width = shared ? values : directions * values;
  const int64_t direction_stride = shared ? 0 : values;
  const ds2::Frames<const float> inputs = {projected, direction_stride, num_frames * width, width};
  std::vector<float> previous(directions * plan.num_frames() * units);
  std::vector<float> kept(
      config.cell == ds2::RecurrentCell::kGru && by_outputs != nullptr ? 3 * previous.size() : 0);
  {
    Workspace workspace(ds2::ForwardWorkspaceBytes(config, plan, num_threads));
    ds2::RunForward(config, plan,
                    {inputs, weights, initial, previous.data(),
                     kept.empty() ? nullptr : kept.data(), outputs, final},
                    num_frames, workspace.data, parallel);
  }
  if (by_outputs == nullptr) return;
  Workspace workspace(ds2::BackwardWorkspaceBytes(config, plan, num_threads));
  ds2::RunBackward(config, plan,
                   {inputs,
                    weights,
                    previous.data(),
                    kept.data(),
                    final,
                    by_outputs,
                    by_final,
                    {by_projected, direction_stride, num_frames * width, width},
                    by_weights,
                    by_initial},
                   num_frames, workspace.data, parallel);
}

}  // extern "C"
