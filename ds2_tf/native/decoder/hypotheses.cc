// What a beam search returns: its hypotheses as texts, with times and what speaks for each word.

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ds2_tf/native/decoder/alignment.h"
#include "ds2_tf/native/decoder/beam_search.h"
#include "ds2_tf/native/decoder/word_mass.h"

namespace ds2::decoder {

// The hypotheses as texts, best first: one that ends in a space says what it says without it.
std::vector<BeamSearch::Ending> BeamSearch::Endings(bool is_end) const {
  std::vector<Ending> endings;
  std::vector<int32_t> place(beam_.size(), -1);  // Of each hypothesis' ending.
  for (const bool spaced : {false, true}) {
    for (size_t slot = 0; slot < beam_.size(); ++slot) {
      const Live& live = beam_[slot];
      const Prefix& prefix = tree_[live.prefix];
      const bool ends_in_space = options_.space != 0 && prefix.symbol == options_.space &&
                                 prefix.parent != Prefix::kNone;
      if (ends_in_space != spaced) continue;
      const double added = is_end ? scorer_.Finish(prefix.context) : 0;
      const double total = live.total() * std::exp(added);
      if (!(total > 0)) continue;
      if (spaced) {
        const int32_t parent_slot = tree_[prefix.parent].slot;
        if (parent_slot != Prefix::kInactive && place[parent_slot] >= 0) {
          endings[place[parent_slot]].total += total;
          continue;
        }
      }
      place[slot] = static_cast<int32_t>(endings.size());
      endings.push_back({live.prefix, total, total, prefix.language + added});
    }
  }
  if (scorer_.has_pairs()) endings = MergedByText(endings);
  std::stable_sort(endings.begin(), endings.end(),
                   [](const Ending& a, const Ending& b) { return a.total > b.total; });
  return endings;
}

// Adds up the hypotheses that spell the same text with other symbols.
std::vector<BeamSearch::Ending> BeamSearch::MergedByText(
    const std::vector<Ending>& endings) const {
  std::vector<Ending> merged;
  std::map<std::vector<int32_t>, size_t> places;
  for (const Ending& ending : endings) {
    std::vector<int32_t> text = Characters(tree_.SymbolsTo(ending.prefix));
    if (!text.empty() && text.back() == options_.space) text.pop_back();
    const auto [found, is_new] = places.try_emplace(std::move(text), merged.size());
    if (is_new) {
      merged.push_back(ending);
      continue;
    }
    Ending& same = merged[found->second];
    same.total += ending.total;
    if (ending.share > same.share) {
      same.prefix = ending.prefix;
      same.share = ending.share;
    }
  }
  return merged;
}

std::vector<int32_t> BeamSearch::Characters(const std::vector<int32_t>& symbols) const {
  std::vector<int32_t> characters;
  for (const int32_t symbol : symbols) {
    for (const int32_t character : scorer_.characters(symbol)) {
      if (character != 0) characters.push_back(character);
    }
  }
  return characters;
}

std::vector<Hypothesis> BeamSearch::Best(size_t count, bool is_end, size_t first_symbol) const {
  std::vector<Ending> endings = Endings(is_end);
  const bool is_complete = !endings.empty();
  if (!is_complete) {  // Of texts cut short one is enough: others might become the same.
    endings = Endings(false);
    endings.erase(endings.begin() + 1, endings.end());
  }
  std::vector<std::vector<int32_t>> texts, spelt;
  std::vector<double> totals;
  const size_t num_texts = std::max(count, kMaxMassTexts);
  for (size_t i = 0; i < endings.size() && i < num_texts; ++i) {
    std::vector<int32_t> symbols = agreed_;
    const std::vector<int32_t> rest = tree_.SymbolsTo(endings[i].prefix);
    symbols.insert(symbols.end(), rest.begin(), rest.end());
    if (!is_complete) {
      // No word may end here: the unfinished one is left out.
      while (!symbols.empty() && !IsBoundary(symbols.back())) symbols.pop_back();
    }
    if (options_.space != 0 && !symbols.empty() && symbols.back() == options_.space) {
      symbols.pop_back();
    }
    spelt.push_back(Characters(symbols));
    texts.push_back(std::move(symbols));
    totals.push_back(endings[i].total);
  }
  std::vector<Hypothesis> hypotheses;
  for (size_t i = 0; i < texts.size() && i < count; ++i) {
    const std::vector<int32_t>& symbols = texts[i];
    const auto first = committed_.begin() + static_cast<std::ptrdiff_t>(first_symbol);
    Hypothesis hypothesis{{first, committed_.end()}, std::log(endings[i].total) + log_scale_,
                          endings[i].language};
    const auto emissions = Align(frames_, options_.num_labels, symbols, options_.space);
    const auto masses = WordMasses(spelt, totals, i, [this](int32_t symbol) {
      if (symbol == options_.space) return Separation::kSpace;
      return IsBoundary(symbol) ? Separation::kWord : Separation::kLetter;
    });
    size_t character = 0;
    for (size_t u = 0; u < symbols.size(); ++u) {
      hypothesis.symbols.push_back(Timed(symbols[u], emissions[u], masses[character]));
      character += scorer_.characters(symbols[u])[1] == 0 ? 1 : 2;
    }
    while (options_.space != 0 && !hypothesis.symbols.empty() &&
           hypothesis.symbols.back().label == options_.space) {
      hypothesis.symbols.pop_back();
    }
    hypotheses.push_back(std::move(hypothesis));
  }
  return hypotheses;
}

}  // namespace ds2::decoder
