// Phrases that a user expects, found while a hypothesis is spelt: an Aho-Corasick automaton.

#ifndef DS2_TF_NATIVE_DECODER_HOT_PHRASES_H_
#define DS2_TF_NATIVE_DECODER_HOT_PHRASES_H_

#include <cstdint>
#include <map>
#include <vector>

namespace ds2::decoder {

// Matches phrases in a sequence of labels and of boundaries between words, which begins with a
// boundary. A phrase begins and ends with one too, so only whole words match.
class HotPhrases {
 public:
  static constexpr int32_t kBoundary = 0;  // In the place of the blank, which no phrase holds.

  // One phrase: labels and boundaries, with one at each end, and its boost in nats.
  struct Phrase {
    std::vector<int32_t> labels;
    float boost;
  };

  explicit HotPhrases(const std::vector<Phrase>& phrases);

  // The state after the first boundary.
  uint32_t start() const { return Next(0, kBoundary); }

  // Returns the state that a label or boundary leads to.
  uint32_t Next(uint32_t state, int32_t label) const;

  // Returns the boosts of all phrases that end in a state.
  float Reward(uint32_t state) const { return states_[state].reward; }

  // Returns the share of a boost that is credited in advance while its phrase is being matched.
  float Credit(uint32_t state) const { return states_[state].credit; }

  // Returns the most that a single step can add.
  float max_gain() const { return max_gain_; }

 private:
  struct State {
    std::map<int32_t, uint32_t> next;
    uint32_t fallback = 0;
    float reward = 0;
    float credit = 0;
  };

  std::vector<State> states_;
  float max_gain_ = 0;
};

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_HOT_PHRASES_H_
