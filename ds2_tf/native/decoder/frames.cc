#include "ds2_tf/native/decoder/frames.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ds2::decoder {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
// Softmax in lower precision may pass ln 1 by a little.
constexpr float kLargest = 0.05f;
constexpr int kLanes = 16;

bool IsBefore(const SymbolProbability& a, const SymbolProbability& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.label < b.label;
}

}  // namespace

void Frames::Drop(size_t count) {
  if (count == 0) return;
  const size_t dropped = ends_[count - 1];
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(dropped));
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(count));
  for (size_t& end : ends_) end -= dropped;
}

std::string Frames::Add(const float* log_probabilities, int num_labels, double cutoff_probability,
                        int cutoff_symbols) {
  const auto limit = static_cast<size_t>(cutoff_symbols);
  candidates_.clear();
  // Below `floor` a symbol cannot be among the `limit` most probable ones.
  float floor = kImpossible;
  for (int first = 0; first < num_labels; first += kLanes) {
    const int end = std::min(first + kLanes, num_labels);
    bool is_any = false, is_bad = false;
    for (int label = first; label < end; ++label) {
      is_any |= log_probabilities[label] > floor;
      is_bad |= !(log_probabilities[label] <= kLargest);
    }
    if (is_bad) {
      for (int label = first; label < end; ++label) {
        const float value = log_probabilities[label];
        if (std::isnan(value)) return "holds NaN for label " + std::to_string(label);
        if (!(value <= kLargest)) {
          return "holds " + std::to_string(value) + " for label " + std::to_string(label) +
                 ", which is no log-probability";
        }
      }
    }
    if (!is_any) continue;
    for (int label = first; label < end; ++label) {
      if (log_probabilities[label] > floor) candidates_.push_back({label, log_probabilities[label]});
    }
    if (candidates_.size() > 4 * limit) {
      const auto last = candidates_.begin() + cutoff_symbols - 1;
      std::nth_element(candidates_.begin(), last, candidates_.end(), IsBefore);
      floor = last->log_probability;
      candidates_.resize(limit);
    }
  }
  if (candidates_.empty()) return "has no possible symbol: all are -infinity";
  double sum = 0;
  bool has_blank = false;
  const auto keep = [&](const SymbolProbability& symbol) {
    kept_.push_back(symbol);
    has_blank |= symbol.label == kBlank;
    sum += std::exp(static_cast<double>(symbol.log_probability));
  };
  // Rounded probabilities may add up to more than 1; a cutoff of 1 keeps all.
  const double enough =
      cutoff_probability < 1 ? cutoff_probability : std::numeric_limits<double>::infinity();
  // Mostly one symbol is enough, seldom are all needed: no more are put in order than are kept.
  auto end = candidates_.end();
  std::iter_swap(std::min_element(candidates_.begin(), end, IsBefore), end - 1);
  keep(*--end);
  const auto is_after = [](const SymbolProbability& a, const SymbolProbability& b) {
    return IsBefore(b, a);
  };
  if (sum < enough) std::make_heap(candidates_.begin(), end, is_after);
  for (size_t count = 1; count < limit && sum < enough && end != candidates_.begin(); ++count) {
    std::pop_heap(candidates_.begin(), end--, is_after);
    keep(*end);
  }
  if (!has_blank && log_probabilities[kBlank] > kImpossible) {
    kept_.push_back({kBlank, log_probabilities[kBlank]});
  }
  ends_.push_back(kept_.size());
  return "";
}

}  // namespace ds2::decoder
