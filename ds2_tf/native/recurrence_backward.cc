#include <algorithm>

#include "ds2_tf/native/gemm.h"
#include "ds2_tf/native/recurrence.h"
#include "ds2_tf/native/recurrence_slices.h"

namespace ds2 {
namespace {

struct BackwardPass : RecurrencePass {
  BackwardPass(const RecurrenceConfig& config, const RecurrencePlan& plan, int num_threads)
      : RecurrencePass(config, plan, num_threads, config.gates() * config.units, config.units),
        sum_values(config.cell == RecurrentCell::kGru ? 4 * units : units) {}

  const int64_t sum_values;  // of a row of by_sums
  float* by_sums = nullptr;  // [D, num_frames, sum_values] packed: `CellBackward::by_sums`
};

struct SliceWorkspace {
  uint32_t* left;
  float* through;  // [rows, product stride], as `CellBackward::through_weights`
  float* direct;   // [rows, H]
};

// Starts the gradient of utterances whose last step has come.
void Enter(const BackwardPass& pass, const RecurrenceBackward& arrays, const Slice& slice,
           int64_t begin, int64_t end, const SliceWorkspace& workspace) {
  for (int64_t row = begin; row < end; ++row) {
    float* through = workspace.through + row * pass.sizes.product_stride;
    std::fill_n(workspace.direct + row * pass.units, pass.units, 0.0f);
    if (arrays.by_final == nullptr) {
      std::fill_n(through, pass.units, 0.0f);
    } else {
      std::copy_n(arrays.by_final + pass.BatchRow(slice.direction, slice.begin + row) * pass.units,
                  pass.units, through);
    }
  }
}

void RunSlice(const BackwardPass& pass, const RecurrenceBackward& arrays, const Slice& slice,
              int64_t num_frames, const uint32_t* weights, const SliceWorkspace& workspace) {
  const RecurrencePlan& plan = pass.plan;
  const int64_t units = pass.units;
  pass.kernels.begin();
  int64_t entered = 0;
  for (int64_t step = plan.num_steps() - 1; step >= 0; --step) {
    const int64_t rows = slice.Active(plan, step);
    if (rows == 0) continue;
    Enter(pass, arrays, slice, entered, rows, workspace);
    entered = rows;
    const int64_t packed = pass.PackedRow(slice, step);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t rank = slice.begin + row;
      const int64_t utterance = plan.utterance(rank);
      const int64_t frame = FrameOfStep(slice.direction, plan.length(rank), step);
      const float* kept =
          arrays.kept == nullptr ? nullptr : arrays.kept + (packed + row) * 3 * units;
      pass.cell.backward(
          {units, arrays.projected.At(slice.direction, utterance, frame),
           arrays.previous + (packed + row) * units,
           pass.StateAfter(arrays.previous, arrays.final, slice.direction, rank, step), kept,
           arrays.by_outputs + (utterance * num_frames + frame) * units,
           workspace.through + row * pass.sizes.product_stride, workspace.direct + row * units,
           pass.by_sums + (packed + row) * pass.sum_values});
    }
    if (step == 0 && arrays.by_initial == nullptr) break;
    pass.kernels.pack_left(pass.kernels,
                           {pass.by_sums + packed * pass.sum_values, pass.sum_values, false}, rows,
                           pass.values, workspace.left, pass.sizes.left_stride);
    pass.MultiplyByWeights(rows, workspace.left, weights, workspace.through);
  }
  pass.kernels.end();
  if (arrays.by_initial == nullptr) return;
  Enter(pass, arrays, slice, entered, slice.end - slice.begin, workspace);
  for (int64_t row = 0; row < slice.end - slice.begin; ++row) {
    const float* through = workspace.through + row * pass.sizes.product_stride;
    const float* direct = workspace.direct + row * units;
    float* by_initial =
        arrays.by_initial + pass.BatchRow(slice.direction, slice.begin + row) * units;
    for (int64_t i = 0; i < units; ++i) by_initial[i] = direct[i] + through[i];
  }
}

// Writes, or adds, a direction's part of the gradient of one utterance's projected inputs.
void WriteByProjected(const BackwardPass& pass, const RecurrenceBackward& arrays, int64_t direction,
                      int64_t utterance, int64_t num_frames, bool add) {
  const int64_t rank = pass.plan.rank(utterance);
  const int64_t length = pass.plan.length(rank);
  // All gates but the candidate have the recurrent product's gradient.
  const int64_t same = pass.config.cell == RecurrentCell::kGru ? 2 * pass.units : pass.units;
  for (int64_t frame = 0; frame < length; ++frame) {
    const int64_t step = FrameOfStep(direction, length, frame);
    const float* from =
        pass.by_sums +
        (direction * pass.plan.num_frames() + pass.plan.offset(step) + rank) * pass.sum_values;
    float* to = arrays.by_projected.At(direction, utterance, frame);
    const auto write = [add](const float* values, int64_t count, float* sums) {
      if (!add) {
        std::copy_n(values, count, sums);
      } else {
        for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
      }
    };
    write(from, same, to);
    if (same < pass.values) write(from + 3 * pass.units, pass.units, to + same);
  }
  for (int64_t frame = length; frame < num_frames; ++frame) {
    std::fill_n(arrays.by_projected.At(direction, utterance, frame), pass.values, 0.0f);
  }
}

std::vector<Product> WeightGradients(const BackwardPass& pass, const RecurrenceBackward& arrays) {
  std::vector<Product> products;
  const int64_t num_frames = pass.plan.num_frames();
  for (int64_t d = 0; d < pass.config.directions; ++d) {
    products.push_back({pass.units, pass.values, num_frames,
                        arrays.previous + d * num_frames * pass.units, pass.units, true,
                        pass.by_sums + d * num_frames * pass.sum_values, pass.sum_values, false,
                        arrays.by_weights + d * pass.units * pass.values, pass.values, false});
  }
  return products;
}

int64_t SliceWords(const BackwardPass& pass) {
  return Pieces::Rounded(pass.sizes.left) + Pieces::Rounded(pass.sizes.product) +
         Pieces::Rounded(pass.slice_rows * pass.units);
}

}  // namespace

size_t BackwardWorkspaceBytes(const RecurrenceConfig& config, const RecurrencePlan& plan,
                              int num_threads) {
  const BackwardPass pass(config, plan, num_threads);
  const int64_t words = config.directions * Pieces::Rounded(pass.sizes.weights) +
                        Pieces::Rounded(config.directions * plan.num_frames() * pass.sum_values) +
                        static_cast<int64_t>(pass.slices.size()) * SliceWords(pass);
  return sizeof(uint32_t) * words + MultiplyWorkspaceBytes(pass.kernels, num_threads);
}

void RunBackward(const RecurrenceConfig& config, const RecurrencePlan& plan,
                 const RecurrenceBackward& arrays, int64_t num_frames, void* workspace,
                 const Parallel& parallel) {
  BackwardPass pass(config, plan, parallel.num_threads);
  Pieces pieces(workspace);
  std::vector<uint32_t*> weights;
  for (int64_t d = 0; d < config.directions; ++d) {
    weights.push_back(pieces.Take<uint32_t>(pass.sizes.weights));
  }
  pass.by_sums = pieces.Take<float>(config.directions * plan.num_frames() * pass.sum_values);
  std::vector<SliceWorkspace> slices;
  for (size_t i = 0; i < pass.slices.size(); ++i) {
    slices.push_back({pieces.Take<uint32_t>(pass.sizes.left),
                      pieces.Take<float>(pass.sizes.product),
                      pieces.Take<float>(pass.slice_rows * pass.units)});
  }

  parallel.run(config.directions, [&](int64_t d) {
    pass.kernels.pack_right(pass.kernels,
                            {arrays.weights + d * pass.units * pass.values, pass.values, false},
                            pass.units, pass.values, weights[d]);
  });
  parallel.run(pass.slices.size(), [&](int64_t i) {
    RunSlice(pass, arrays, pass.slices[i], num_frames, weights[pass.slices[i].direction],
             slices[i]);
  });
  parallel.run(plan.num_utterances(), [&](int64_t utterance) {
    for (int64_t d = 0; d < config.directions; ++d) {
      const bool add = d > 0 && arrays.by_projected.direction_stride == 0;
      WriteByProjected(pass, arrays, d, utterance, num_frames, add);
    }
  });
  Multiply(pass.kernels, WeightGradients(pass, arrays), pieces.Take<void>(0), parallel);
}

}  // namespace ds2
