#include "ds2_tf/native/decoder/lexicon.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace ds2::decoder {

Lexicon::Lexicon(std::vector<LexiconWord> words) {
  std::sort(words.begin(), words.end(), [](const LexiconWord& a, const LexiconWord& b) {
    if (a.labels != b.labels) return a.labels < b.labels;
    return a.log_probability > b.log_probability;
  });
  // Each node stands for the range of words that begin with its labels.
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> ranges{{0, words.size()}};
  std::vector<size_t> depths{0};
  nodes_.emplace_back();
  labels_.push_back(0);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end] = ranges[node];
    const size_t depth = depths[node];
    const size_t first_child = nodes_.size();
    while (begin < end && words[begin].labels.size() == depth) {
      if (depth > 0 && nodes_[node].token == kNone) nodes_[node].token = words[begin].token;
      ++begin;
    }
    while (begin < end) {
      const int32_t label = words[begin].labels[depth];
      size_t next = begin;
      float best = -std::numeric_limits<float>::infinity();
      for (; next < end && words[next].labels[depth] == label; ++next) {
        best = std::max(best, words[next].log_probability);
      }
      nodes_.emplace_back();
      nodes_.back().best = best;
      labels_.push_back(label);
      ranges.push_back({begin, next});
      depths.push_back(depth + 1);
      begin = next;
    }
    nodes_[node].first_child = static_cast<uint32_t>(first_child);
    nodes_[node].num_children = static_cast<uint32_t>(nodes_.size() - first_child);
  }
}

}  // namespace ds2::decoder
