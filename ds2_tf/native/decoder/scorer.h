// What a hypothesis' text is worth: language model, words, hot phrases.
//
// Source: Deep Speech 2, section 3.8: Q(y) = ln p_ctc(y|x) + alpha ln p_lm(y) + beta word_count(y).

#ifndef DS2_TF_NATIVE_DECODER_SCORER_H_
#define DS2_TF_NATIVE_DECODER_SCORER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ds2_tf/native/decoder/hot_phrases.h"
#include "ds2_tf/native/decoder/language_model.h"
#include "ds2_tf/native/decoder/lexicon.h"

namespace ds2::decoder {

// What a symbol is to the text.
enum class SymbolKind : uint8_t {
  kLetter,  // One of a word's.
  kSpace,   // Ends a word.
  kUnit,    // Counts as a word by itself, as a Mandarin character does.
};

struct Symbol {
  static constexpr uint32_t kNoToken = UINT32_MAX;

  // Of a pair: kUnit unless both are letters.
  SymbolKind kind = SymbolKind::kLetter;
  uint32_t token = kNoToken;  // Of a unit: the language model's.
  // The labels of the characters that it stands for: its own, or a pair's two; 0: none.
  std::array<int32_t, 2> characters = {0, 0};
};

// All weights are in nats.
struct ScoringOptions {
  double lm_weight = 0;
  double word_bonus = 0;
  double unknown_penalty = 0;
  bool closed = false;  // Whether words must be in the lexicon, or hot.
};

// Where a hypothesis stands in its text.
struct Context {
  uint32_t lexicon_node = Lexicon::kRoot;  // kNone: of an unknown word.
  uint32_t hot_word_node = Lexicon::kRoot;
  uint32_t hot_state = 0;
  bool in_word = false;
  bool after_space = false;
  ds2_language_model_state state = {};
};

// Adds up scores of hypotheses as they grow, in natural logarithms. What a word will be worth is
// estimated while it is spelt, from the most probable word that begins so, and replaced by what it
// is worth when it ends: this helps the search and does not change the sum.
class Scorer {
 public:
  // `lexicon` and `language_model` may be null; they must outlive the scorer. `symbols` has the
  // kinds of all labels, `space_token` the language model's token for a space, or kNoToken.
  Scorer(ScoringOptions options, std::vector<Symbol> symbols, uint32_t space_token,
         const Lexicon* lexicon, const ds2_language_model* language_model);

  // Returns a scorer that rewards phrases too; `words` are those that occur in them.
  Scorer WithHotPhrases(const std::vector<HotPhrases::Phrase>& phrases,
                        std::vector<LexiconWord> words) const;

  SymbolKind kind(int32_t label) const { return symbols_[label].kind; }
  const std::array<int32_t, 2>& characters(int32_t label) const {
    return symbols_[label].characters;
  }
  bool has_pairs() const { return has_pairs_; }  // Whether a text can be spelt in several ways.
  bool units_spell_words() const { return units_spell_words_; }
  bool has_hot_phrases() const { return hot_phrases_ != nullptr; }

  Context Start() const;

  // Returns what a symbol adds, -infinity if it may not follow; unless `to` is null it receives the
  // context after it. A space must not follow a space or the start.
  double Extend(const Context& from, int32_t label, Context* to) const;

  // Returns whether a space ends a phrase to reward.
  bool EndsHotPhrase(const Context& from) const {
    return hot_phrases_->Reward(hot_phrases_->Next(from.hot_state, HotPhrases::kBoundary)) > 0;
  }

  // Returns what the end of the text adds.
  double Finish(const Context& from) const;

  // The factor exp(Extend(from, label)) of a letter, fast; only without hot phrases.
  double LetterFactor(const Context& from, int32_t label) const {
    if (!lexicon_) return 1;
    double unknown = options_.closed ? 0 : unknown_estimate_;
    if (from.lexicon_node == Lexicon::kNone) return options_.closed ? 0 : 1;
    if (!has_pairs_) {
      const uint32_t child = lexicon_->Child(from.lexicon_node, label);
      if (child != Lexicon::kNone) return factors_[child];
    } else {
      double factor = 1;
      uint32_t node = from.lexicon_node;
      for (const int32_t character : symbols_[label].characters) {
        if (character == 0 || node == Lexicon::kNone) break;
        node = lexicon_->Child(node, character);
        if (node != Lexicon::kNone) factor *= factors_[node];
      }
      if (node != Lexicon::kNone) return factor;
    }
    return unknown * inverse_estimates_[from.lexicon_node];
  }

  // Upper bounds of the factors of letters, and of spaces and units, after a context.
  double LetterBound(const Context& from) const {
    if (!lexicon_ || from.lexicon_node == Lexicon::kNone) return hot_bound_;
    if (options_.closed && !hot_phrases_) return 1;
    const double unknown = unknown_estimate_ * inverse_estimates_[from.lexicon_node];
    return hot_bound_ * (unknown > 1 ? unknown : 1);
  }
  double TokenBound(const Context& from) const {
    if (!lexicon_) return token_bound_;
    if (from.lexicon_node == Lexicon::kNone) return token_bound_ * inverse_unknown_estimate_;
    return token_bound_ * inverse_estimates_[from.lexicon_node];
  }

 private:
  int MostTokens() const;
  double ExtendByCharacter(const Context& from, int32_t label, Context* to) const;
  double ExtendByUnit(const Context& from, int32_t label, Context* to) const;
  bool IsHotWord(uint32_t node) const;
  bool IsWord(uint32_t node) const;
  double EndWord(const Context& from, Context* to) const;
  double EndUnits(Context* to) const;
  double AddToken(uint32_t token, double penalty, Context* to) const;
  double Estimate(const Context& context) const;
  double MoveHot(int32_t label, Context* to) const;

  ScoringOptions options_;
  std::vector<Symbol> symbols_;
  uint32_t space_token_;
  bool units_spell_words_;  // Between spaces; else each unit is a word.
  bool has_pairs_ = false;
  const Lexicon* lexicon_;
  const ds2_language_model* language_model_;
  double unknown_log_ = 0;  // ln p(unknown) without context.
  // exp of what is estimated, and of its negative, and how it changes on the way to a node.
  double unknown_estimate_ = 1;
  double inverse_unknown_estimate_ = 1;
  std::shared_ptr<const std::vector<double>> estimates_;
  const double* inverse_estimates_ = nullptr;
  const double* factors_ = nullptr;
  std::shared_ptr<const HotPhrases> hot_phrases_;
  std::shared_ptr<const Lexicon> hot_words_;
  double hot_bound_ = 1;
  double token_bound_ = 1;
};

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_SCORER_H_
