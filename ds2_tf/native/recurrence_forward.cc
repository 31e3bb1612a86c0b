#include <algorithm>

#include "ds2_tf/native/recurrence.h"
#include "ds2_tf/native/recurrence_slices.h"

namespace ds2 {
namespace {

void RunSlice(const RecurrencePass& pass, const RecurrenceForward& arrays, const Slice& slice,
              const uint32_t* weights, uint32_t* left, float* product) {
  const RecurrencePlan& plan = pass.plan;
  const int64_t units = pass.units;
  const int64_t product_stride = pass.sizes.product_stride;
  for (int64_t rank = slice.begin; rank < slice.end; ++rank) {
    float* state = pass.StateAfter(arrays.previous, arrays.final, slice.direction, rank, -1);
    if (arrays.initial == nullptr) {
      std::fill_n(state, units, 0.0f);
    } else {
      std::copy_n(arrays.initial + pass.BatchRow(slice.direction, rank) * units, units, state);
    }
  }
  pass.kernels.begin();
  for (int64_t step = 0; step < plan.num_steps(); ++step) {
    const int64_t rows = slice.Active(plan, step);
    if (rows == 0) break;
    const int64_t packed = pass.PackedRow(slice, step);
    const float* previous = arrays.previous + packed * units;
    if (step == 0 && arrays.initial == nullptr) {
      std::fill_n(product, rows * product_stride, 0.0f);
    } else {
      pass.kernels.pack_left(pass.kernels, {previous, units, false}, rows, units, left,
                             pass.sizes.left_stride);
      pass.MultiplyByWeights(rows, left, weights, product);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t rank = slice.begin + row;
      const int64_t frame = FrameOfStep(slice.direction, plan.length(rank), step);
      float* kept = arrays.kept == nullptr ? nullptr : arrays.kept + (packed + row) * 3 * units;
      pass.cell.forward(
          {units, arrays.projected.At(slice.direction, plan.utterance(rank), frame),
           product + row * product_stride, previous + row * units,
           pass.StateAfter(arrays.previous, arrays.final, slice.direction, rank, step), kept});
    }
  }
  pass.kernels.end();
}

// Sums the directions' states into the outputs of one utterance.
void Sum(const RecurrencePass& pass, const RecurrenceForward& arrays, int64_t utterance,
         int64_t num_frames) {
  const int64_t rank = pass.plan.rank(utterance);
  const int64_t length = pass.plan.length(rank);
  const auto state = [&](int64_t direction, int64_t frame) {
    return pass.StateAfter(arrays.previous, arrays.final, direction, rank,
                           FrameOfStep(direction, length, frame));
  };
  float* output = arrays.outputs + utterance * num_frames * pass.units;
  for (int64_t frame = 0; frame < length; ++frame, output += pass.units) {
    const float* forward = state(0, frame);
    if (pass.config.directions == 1) {
      std::copy_n(forward, pass.units, output);
      continue;
    }
    const float* backward = state(1, frame);
    for (int64_t i = 0; i < pass.units; ++i) output[i] = forward[i] + backward[i];
  }
  std::fill_n(output, (num_frames - length) * pass.units, 0.0f);
}

RecurrencePass Prepare(const RecurrenceConfig& config, const RecurrencePlan& plan,
                       int num_threads) {
  return RecurrencePass(config, plan, num_threads, config.units, config.gates() * config.units);
}

}  // namespace

size_t ForwardWorkspaceBytes(const RecurrenceConfig& config, const RecurrencePlan& plan,
                             int num_threads) {
  const RecurrencePass pass = Prepare(config, plan, num_threads);
  const int64_t slice = Pieces::Rounded(pass.sizes.left) + Pieces::Rounded(pass.sizes.product);
  return sizeof(uint32_t) * (config.directions * Pieces::Rounded(pass.sizes.weights) +
                             static_cast<int64_t>(pass.slices.size()) * slice);
}

void RunForward(const RecurrenceConfig& config, const RecurrencePlan& plan,
                const RecurrenceForward& arrays, int64_t num_frames, void* workspace,
                const Parallel& parallel) {
  const RecurrencePass pass = Prepare(config, plan, parallel.num_threads);
  Pieces pieces(workspace);
  std::vector<uint32_t*> weights;
  for (int64_t d = 0; d < config.directions; ++d) {
    weights.push_back(pieces.Take<uint32_t>(pass.sizes.weights));
  }
  std::vector<uint32_t*> lefts;
  std::vector<float*> products;
  for (size_t i = 0; i < pass.slices.size(); ++i) {
    lefts.push_back(pieces.Take<uint32_t>(pass.sizes.left));
    products.push_back(pieces.Take<float>(pass.sizes.product));
  }

  parallel.run(config.directions, [&](int64_t d) {
    const float* source = arrays.weights + d * pass.units * pass.values;
    pass.kernels.pack_right(pass.kernels, {source, pass.values, true}, pass.values, pass.units,
                            weights[d]);
  });
  parallel.run(pass.slices.size(), [&](int64_t i) {
    const Slice& slice = pass.slices[i];
    RunSlice(pass, arrays, slice, weights[slice.direction], lefts[i], products[i]);
  });
  parallel.run(plan.num_utterances(),
               [&](int64_t utterance) { Sum(pass, arrays, utterance, num_frames); });
}

}  // namespace ds2
