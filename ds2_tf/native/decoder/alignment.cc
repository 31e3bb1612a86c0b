#include "ds2_tf/native/decoder/alignment.h"

#include <algorithm>
#include <limits>

namespace ds2::decoder {
namespace {

// Of symbols that were not kept of a frame: less than any that a search would follow for long.
constexpr float kFloor = -60;
constexpr float kImpossible = -std::numeric_limits<float>::infinity();

}  // namespace

std::vector<Emission> Align(const Frames& frames, int num_labels,
                            const std::vector<int32_t>& symbols, int32_t space) {
  const size_t num_frames = frames.size();
  const size_t num_symbols = symbols.size();
  std::vector<Emission> emissions(num_symbols);
  if (num_symbols == 0 || num_frames == 0) return emissions;
  // State 2 u + 1 writes symbol u; state 2 u waits before it, the last one after all.
  const size_t num_states = 2 * num_symbols + 1;
  std::vector<float> scores(num_states, kImpossible);
  std::vector<float> row(static_cast<size_t>(num_labels), kFloor);
  std::vector<uint8_t> steps(num_frames * num_states);  // How many states a path moved on.
  for (size_t t = 0; t < num_frames; ++t) {
    for (auto kept = frames.begin(t); kept != frames.end(t); ++kept) {
      row[kept->label] = std::max(kept->log_probability, kFloor);
    }
    const float blank = row[kBlank];
    const float blank_or_space = space ? std::max(blank, row[space]) : blank;
    uint8_t* step = steps.data() + t * num_states;
    // Only these states can be reached by now, and still reach the end.
    const size_t remaining = 2 * (num_frames - 1 - t);
    const size_t low = num_states - 1 > remaining + 1 ? num_states - 2 - remaining : 0;
    const size_t high = std::min(num_states, 2 * t + 2);
    for (size_t state = high; state-- > low;) {
      const bool writes = state % 2;
      const size_t symbol = state / 2;
      float best = t == 0 ? (state < 2 ? 0 : kImpossible) : scores[state];
      uint8_t moved = 0;
      if (t > 0 && state > 0 && scores[state - 1] > best) {
        best = scores[state - 1];
        moved = 1;
      }
      if (t > 0 && writes && symbol > 0 && symbols[symbol] != symbols[symbol - 1] &&
          scores[state - 2] > best) {
        best = scores[state - 2];
        moved = 2;
      }
      float emitted;
      if (writes) {
        emitted = row[symbols[symbol]];
      } else {
        const bool is_edge = symbol == 0 || symbol == num_symbols;
        emitted = is_edge || symbols[symbol - 1] == space ? blank_or_space : blank;
      }
      scores[state] = best + emitted;
      step[state] = moved;
    }
    for (auto kept = frames.begin(t); kept != frames.end(t); ++kept) row[kept->label] = kFloor;
  }
  size_t state = num_states - 1;
  if (scores[state - 1] > scores[state]) --state;
  if (scores[state] == kImpossible) {
    std::fill(emissions.begin(), emissions.end(), Emission{num_frames - 1, num_frames, kFloor});
    return emissions;
  }
  std::fill(emissions.begin(), emissions.end(), Emission{num_frames, 0, kFloor});
  for (size_t t = num_frames; t-- > 0;) {
    if (state % 2) {
      Emission& emission = emissions[state / 2];
      float log_probability = kFloor;
      for (auto kept = frames.begin(t); kept != frames.end(t); ++kept) {
        if (kept->label == symbols[state / 2]) log_probability = kept->log_probability;
      }
      if (emission.end == 0) emission.end = t + 1;
      emission.first = t;
      emission.log_probability = std::max(emission.log_probability, log_probability);
    }
    state -= steps[t * num_states + state];
  }
  return emissions;
}

}  // namespace ds2::decoder
