// The words that a hypothesis may spell: a trie over the labels of an alphabet.

#ifndef DS2_TF_NATIVE_DECODER_LEXICON_H_
#define DS2_TF_NATIVE_DECODER_LEXICON_H_

#include <cstdint>
#include <vector>

namespace ds2::decoder {

// One word: the labels that spell it, and the language model's index of it.
struct LexiconWord {
  std::vector<int32_t> labels;
  uint32_t token;
  float log_probability;  // Without context.
};

// Immutable; the children of a node lie side by side, in order of their labels.
class Lexicon {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = UINT32_MAX;

  // Of two words with the same labels the more probable one is kept. Empty words are left out.
  explicit Lexicon(std::vector<LexiconWord> words);

  // Returns the child that a label leads to, or kNone.
  uint32_t Child(uint32_t node, int32_t label) const {
    const Node& parent = nodes_[node];
    const int32_t* labels = labels_.data() + parent.first_child;
    for (uint32_t i = 0; i < parent.num_children; ++i) {
      if (labels[i] == label) return parent.first_child + i;
    }
    return kNone;
  }

  // Returns the token of the word that ends at a node, or kNone.
  uint32_t Token(uint32_t node) const { return nodes_[node].token; }

  // Returns the largest log-probability of the words that begin as the node says; 0 at the root.
  float Best(uint32_t node) const { return nodes_[node].best; }

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  uint32_t FirstChild(uint32_t node) const { return nodes_[node].first_child; }
  uint32_t NumChildren(uint32_t node) const { return nodes_[node].num_children; }

 private:
  struct Node {
    uint32_t first_child = 0;
    uint32_t num_children = 0;
    uint32_t token = kNone;
    float best = 0;
  };

  std::vector<Node> nodes_;
  std::vector<int32_t> labels_;  // Of the edge that leads to each node.
};

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_LEXICON_H_
