// How forward and backward recurrence cut their work, and what each piece needs.

#ifndef DS2_TF_NATIVE_RECURRENCE_SLICES_H_
#define DS2_TF_NATIVE_RECURRENCE_SLICES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/recurrence.h"
#include "ds2_tf/native/recurrence_cells.h"

namespace ds2 {

// The utterances of some ranks in one direction: a chain of steps that no other slice touches.
struct Slice {
  int64_t direction;
  int64_t begin;  // rank
  int64_t end;

  // How many of its utterances a step has.
  int64_t Active(const RecurrencePlan& plan, int64_t step) const {
    return std::clamp<int64_t>(plan.active(step) - begin, 0, end - begin);
  }
};

// The rows of a slice: as many as possible, for each reads all weights at every step, yet a slice
// for each thread.
inline int64_t SliceRows(const RecurrenceConfig& config, const RecurrencePlan& plan,
                         const Kernels& kernels, int num_threads) {
  constexpr int64_t kMostRows = 64;
  const int64_t slices = std::max<int64_t>(1, num_threads / config.directions);
  const int64_t rows = (plan.num_utterances() + slices - 1) / slices;
  return std::min(kMostRows, kernels.PaddedRows(std::max<int64_t>(1, rows)));
}

inline std::vector<Slice> CutIntoSlices(const RecurrenceConfig& config, const RecurrencePlan& plan,
                                        int64_t slice_rows) {
  std::vector<Slice> slices;
  for (int64_t begin = 0; begin < plan.num_utterances(); begin += slice_rows) {
    for (int64_t direction = 0; direction < config.directions; ++direction) {
      slices.push_back({direction, begin, std::min(begin + slice_rows, plan.num_utterances())});
    }
  }
  return slices;
}

// The frame of an utterance that a direction meets in a step.
inline int64_t FrameOfStep(int64_t direction, int64_t length, int64_t step) {
  return direction == 0 ? step : length - 1 - step;
}

// Sizes, in words, of one slice's part of the workspace and of the packed weights.
struct SliceBuffers {
  SliceBuffers(const Kernels& kernels, int64_t slice_rows, int64_t depth, int64_t columns)
      // Rows at a power of two from each other would share a few sets of the cache.
      : left_stride(kernels.Words(depth) + 16),
        left(kernels.PaddedRows(slice_rows) * left_stride),
        product_stride((columns + 15) / 16 * 16 + 16),
        product(slice_rows * product_stride),
        panel(kernels.Words(depth) * kernels.columns),
        weights(kernels.Panels(columns) * panel) {}

  int64_t left_stride;
  int64_t left;
  int64_t product_stride;
  int64_t product;
  int64_t panel;
  int64_t weights;
};

// What both passes work with; `depth` and `columns` are those of the weights in the steps'
// products.
struct RecurrencePass {
  RecurrencePass(const RecurrenceConfig& config, const RecurrencePlan& plan, int num_threads,
                 int64_t depth, int64_t columns)
      : config(config),
        plan(plan),
        kernels(*config.kernels),
        cell(config.cell == RecurrentCell::kGru ? GruKernels(kernels.instruction_set)
                                                : ClippedReluKernels(kernels.instruction_set)),
        units(config.units),
        values(config.gates() * config.units),
        depth(depth),
        columns(columns),
        slice_rows(SliceRows(config, plan, kernels, num_threads)),
        slices(CutIntoSlices(config, plan, slice_rows)),
        sizes(kernels, slice_rows, depth, columns) {}

  // The packed row of a slice's first utterance in a step.
  int64_t PackedRow(const Slice& slice, int64_t step) const {
    return slice.direction * plan.num_frames() + plan.offset(step) + slice.begin;
  }

  // The row [D, B] of the utterance with a rank.
  int64_t BatchRow(int64_t direction, int64_t rank) const {
    return direction * plan.num_utterances() + plan.utterance(rank);
  }

  // Where the state after a step is: in the row before the utterance's next step, or the final one.
  // Step -1 leaves the initial state.
  template <class T>
  T* StateAfter(T* previous, T* final, int64_t direction, int64_t rank, int64_t step) const {
    if (step + 1 < plan.length(rank)) {
      return previous + (direction * plan.num_frames() + plan.offset(step + 1) + rank) * units;
    }
    return final + BatchRow(direction, rank) * units;
  }

  // product = left x weights for the first rows of a slice.
  void MultiplyByWeights(int64_t rows, const uint32_t* left, const uint32_t* weights,
                         float* product) const {
    for (int64_t j = 0; j < columns; j += kernels.columns) {
      const int64_t width = std::min<int64_t>(kernels.columns, columns - j);
      kernels.multiply(rows, width, kernels.Words(depth), left, sizes.left_stride,
                       weights + j / kernels.columns * sizes.panel, product + j,
                       sizes.product_stride, false);
    }
  }

  const RecurrenceConfig& config;
  const RecurrencePlan& plan;
  const Kernels& kernels;
  const CellKernels cell;
  const int64_t units;
  const int64_t values;
  const int64_t depth;
  const int64_t columns;
  const int64_t slice_rows;
  const std::vector<Slice> slices;
  const SliceBuffers sizes;
};

// Hands out consecutive pieces of a workspace, each on a cache line of its own.
class Pieces {
 public:
  explicit Pieces(void* workspace) : next_(static_cast<uint32_t*>(workspace)) {}

  template <class T>
  T* Take(int64_t words) {
    uint32_t* piece = next_;
    next_ += Rounded(words);
    return reinterpret_cast<T*>(piece);
  }

  static int64_t Rounded(int64_t words) { return (words + 15) / 16 * 16; }

 private:
  uint32_t* next_;
};

}  // namespace ds2

#endif  // DS2_TF_NATIVE_RECURRENCE_SLICES_H_
