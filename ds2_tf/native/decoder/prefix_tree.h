// The prefixes that hypotheses share.

#ifndef DS2_TF_NATIVE_DECODER_PREFIX_TREE_H_
#define DS2_TF_NATIVE_DECODER_PREFIX_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/decoder/scorer.h"

namespace ds2::decoder {

struct Prefix {
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int32_t kInactive = -1;

  uint32_t parent = kNone;
  uint32_t first_child = kNone;
  uint32_t next_sibling = kNone;
  int32_t symbol = 0;        // Its last one.
  int32_t slot = kInactive;  // Its place in the beam.
  uint64_t serial = 0;       // Never used again, unlike its index; 0 when it is freed.
  double factor = 1;         // exp of what the last symbol adds to the language score.
  double language = 0;       // The language score of all symbols.
  Context context;
};

// A tree in which prefixes are made at the leaves, and vanish when neither they nor any that
// continues them is in the beam. The root moves along with what all hypotheses agree on.
class PrefixTree {
 public:
  // Begins anew with one prefix, the root.
  void Reset(int32_t symbol, const Context& context) {
    prefixes_.clear();
    free_.clear();
    root_ = Make(Prefix::kNone, symbol);
    prefixes_[root_].context = context;
  }

  Prefix& operator[](uint32_t index) { return prefixes_[index]; }
  const Prefix& operator[](uint32_t index) const { return prefixes_[index]; }
  uint32_t root() const { return root_; }
  size_t size() const { return prefixes_.size() - free_.size(); }

  // Returns the child of a prefix by a symbol, or kNone.
  uint32_t Find(uint32_t parent, int32_t symbol) const {
    uint32_t child = prefixes_[parent].first_child;
    while (child != Prefix::kNone && prefixes_[child].symbol != symbol) {
      child = prefixes_[child].next_sibling;
    }
    return child;
  }

  // Makes a prefix, which must not be there yet. References become invalid.
  uint32_t Make(uint32_t parent, int32_t symbol) {
    uint32_t index;
    if (free_.empty()) {
      index = static_cast<uint32_t>(prefixes_.size());
      prefixes_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
      prefixes_[index] = Prefix();
    }
    Prefix& prefix = prefixes_[index];
    prefix.parent = parent;
    prefix.symbol = symbol;
    prefix.serial = ++last_serial_;
    if (parent != Prefix::kNone) {
      prefix.next_sibling = prefixes_[parent].first_child;
      prefixes_[parent].first_child = index;
    }
    return index;
  }

  // Frees a prefix, and those it continues, as far as they are there and nothing needs them.
  void Release(uint32_t index) {
    while (index != root_ && prefixes_[index].serial != 0 &&
           prefixes_[index].slot == Prefix::kInactive &&
           prefixes_[index].first_child == Prefix::kNone) {
      const uint32_t parent = prefixes_[index].parent;
      uint32_t* link = &prefixes_[parent].first_child;
      while (*link != index) link = &prefixes_[*link].next_sibling;
      *link = prefixes_[index].next_sibling;
      Free(index);
      index = parent;
    }
  }

  // Moves the root one symbol on if every hypothesis continues so; returns whether it did.
  bool AdvanceRoot() {
    const Prefix& root = prefixes_[root_];
    const uint32_t child = root.first_child;
    if (root.slot != Prefix::kInactive || child == Prefix::kNone ||
        prefixes_[child].next_sibling != Prefix::kNone) {
      return false;
    }
    Free(root_);
    root_ = child;
    prefixes_[child].parent = Prefix::kNone;
    return true;
  }

  // Returns the symbols that lead from the root to a prefix.
  std::vector<int32_t> SymbolsTo(uint32_t index) const;

 private:
  void Free(uint32_t index) {
    prefixes_[index].serial = 0;
    free_.push_back(index);
  }

  std::vector<Prefix> prefixes_;
  std::vector<uint32_t> free_;
  uint32_t root_ = 0;
  uint64_t last_serial_ = 0;
};

inline std::vector<int32_t> PrefixTree::SymbolsTo(uint32_t index) const {
  std::vector<int32_t> symbols;
  for (; index != root_; index = prefixes_[index].parent) {
    symbols.push_back(prefixes_[index].symbol);
  }
  return {symbols.rbegin(), symbols.rend()};
}

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_PREFIX_TREE_H_
