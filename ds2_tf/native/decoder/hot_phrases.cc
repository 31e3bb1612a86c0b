#include "ds2_tf/native/decoder/hot_phrases.h"

#include <algorithm>
#include <cstddef>
#include <deque>

namespace ds2::decoder {

HotPhrases::HotPhrases(const std::vector<Phrase>& phrases) : states_(1) {
  for (const auto& [labels, boost] : phrases) {
    uint32_t state = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      auto [found, is_new] =
          states_[state].next.try_emplace(labels[i], static_cast<uint32_t>(states_.size()));
      state = found->second;
      if (is_new) states_.emplace_back();
      // The first boundary matches everywhere; the last one pays the boost itself.
      const float share = static_cast<float>(i) / static_cast<float>(labels.size() - 1);
      if (i + 1 < labels.size()) {
        states_[state].credit = std::max(states_[state].credit, boost * share);
      }
    }
    states_[state].reward += boost;
  }
  std::deque<uint32_t> queue;
  for (const auto& [label, child] : states_[0].next) queue.push_back(child);
  while (!queue.empty()) {
    const uint32_t state = queue.front();
    queue.pop_front();
    for (const auto& [label, child] : states_[state].next) {
      states_[child].fallback = Next(states_[state].fallback, label);
      queue.push_back(child);
    }
    // A shorter phrase may end here too, or be on its way.
    const State& shorter = states_[states_[state].fallback];
    states_[state].reward += shorter.reward;
    states_[state].credit = std::max(states_[state].credit, shorter.credit);
    max_gain_ = std::max(max_gain_, states_[state].reward + states_[state].credit);
  }
}

uint32_t HotPhrases::Next(uint32_t state, int32_t label) const {
  while (true) {
    const auto found = states_[state].next.find(label);
    if (found != states_[state].next.end()) return found->second;
    if (state == 0) return 0;
    state = states_[state].fallback;
  }
}

}  // namespace ds2::decoder
