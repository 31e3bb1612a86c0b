#include "ds2_tf/native/decoder/scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ds2::decoder {
namespace {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

}  // namespace

Scorer::Scorer(ScoringOptions options, std::vector<Symbol> symbols, uint32_t space_token,
               const Lexicon* lexicon, const ds2_language_model* language_model)
    : options_(options),
      symbols_(std::move(symbols)),
      space_token_(space_token),
      units_spell_words_(space_token != Symbol::kNoToken),
      lexicon_(lexicon),
      language_model_(language_model) {
  for (const Symbol& symbol : symbols_) has_pairs_ = has_pairs_ || symbol.characters[1] != 0;
  if (!language_model_) {
    options_.lm_weight = options_.word_bonus = options_.unknown_penalty = 0;
  } else {
    const ds2_language_model_state nothing = {};
    ds2_language_model_state after;
    unknown_log_ = language_model_->score(language_model_->model, &nothing, 0, &after);
  }
  token_bound_ = std::exp(
      MostTokens() * std::fmax(0.0, options_.word_bonus +
                                        std::fmax(0.0, options_.lm_weight *
                                                           options_.unknown_penalty)));
  const double unknown = options_.lm_weight * (unknown_log_ + options_.unknown_penalty);
  unknown_estimate_ = std::exp(unknown);
  inverse_unknown_estimate_ = std::exp(-unknown);
  if (!lexicon_) return;
  const size_t size = lexicon_->size();
  auto estimates = std::make_shared<std::vector<double>>(2 * size);
  double* inverse = estimates->data();
  double* factors = inverse + size;
  factors[Lexicon::kRoot] = 1;
  for (uint32_t node = 0; node < size; ++node) {
    const double best = lexicon_->Best(node);
    inverse[node] = std::exp(-options_.lm_weight * best);
    for (uint32_t i = 0; i < lexicon_->NumChildren(node); ++i) {
      const uint32_t child = lexicon_->FirstChild(node) + i;
      factors[child] = std::exp(options_.lm_weight * (lexicon_->Best(child) - best));
    }
  }
  inverse_estimates_ = inverse;
  factors_ = factors;
  estimates_ = std::move(estimates);
}

Scorer Scorer::WithHotPhrases(const std::vector<HotPhrases::Phrase>& phrases,
                              std::vector<LexiconWord> words) const {
  Scorer scorer = *this;
  scorer.hot_phrases_ = std::make_shared<HotPhrases>(phrases);
  scorer.hot_words_ = std::make_shared<Lexicon>(std::move(words));
  // A hot word that the lexicon lacks is spared the penalty of unknown words at some letter.
  const double spared = std::fmax(0.0, -options_.lm_weight * options_.unknown_penalty);
  // The boundaries around a unit are steps, too.
  const double num_steps = has_pairs_ ? 6 : 3;
  const double gain = std::exp(num_steps * scorer.hot_phrases_->max_gain());
  scorer.hot_bound_ = gain * std::exp(spared);
  scorer.token_bound_ *= gain * std::exp(spared);
  return scorer;
}

// The most tokens that one symbol can add: a unit's, a space's before it, and that of a word.
int Scorer::MostTokens() const {
  int letters = 0, units = 0;
  for (const Symbol& symbol : symbols_) {
    if (symbol.kind == SymbolKind::kLetter) letters = 1;
    if (symbol.kind != SymbolKind::kUnit) continue;
    units = std::max(units, symbol.characters[1] == 0 ? 1 : 2);
  }
  return letters + units + (space_token_ == Symbol::kNoToken ? 0 : 1);
}

Context Scorer::Start() const {
  Context context;
  if (language_model_) language_model_->begin_sentence(language_model_->model, &context.state);
  if (hot_phrases_) context.hot_state = hot_phrases_->start();
  return context;
}

double Scorer::Extend(const Context& from, int32_t label, Context* to) const {
  Context local;
  Context& after = to ? *to : local;
  const auto& [first, second] = symbols_[label].characters;
  if (second == 0) return ExtendByCharacter(from, label, &after);
  Context between;
  const double sum = ExtendByCharacter(from, first, &between);
  return sum + ExtendByCharacter(between, second, &after);
}

double Scorer::ExtendByCharacter(const Context& from, int32_t label, Context* to) const {
  Context& after = *to;
  after = from;
  double sum = 0;
  switch (symbols_[label].kind) {
    case SymbolKind::kLetter: {
      const bool is_new = !from.in_word;
      after.in_word = true;
      after.after_space = false;
      if (lexicon_ && from.lexicon_node != Lexicon::kNone) {
        after.lexicon_node = lexicon_->Child(from.lexicon_node, label);
      }
      if (hot_words_) {
        const uint32_t node = is_new ? Lexicon::kRoot : from.hot_word_node;
        after.hot_word_node =
            node == Lexicon::kNone ? Lexicon::kNone : hot_words_->Child(node, label);
      }
      const bool is_known = !lexicon_ || after.lexicon_node != Lexicon::kNone ||
                            (hot_words_ && after.hot_word_node != Lexicon::kNone);
      if (options_.closed && !is_known) return kForbidden;
      return Estimate(after) - Estimate(from) + MoveHot(label, &after);
    }
    case SymbolKind::kSpace:
      sum += from.in_word ? EndWord(from, &after) : EndUnits(&after);
      after.after_space = true;
      return sum;
    case SymbolKind::kUnit:
      if (from.in_word) sum += EndWord(from, &after);
      if (from.after_space && space_token_ != Symbol::kNoToken) {
        sum += AddToken(space_token_, space_token_ == 0 ? options_.unknown_penalty : 0, &after);
      }
      after.after_space = false;
      return sum + ExtendByUnit(from, label, &after);
  }
  return kForbidden;
}

double Scorer::ExtendByUnit(const Context& from, int32_t label, Context* to) const {
  bool is_hot = false;
  if (!units_spell_words_) {
    is_hot = hot_words_ && IsHotWord(hot_words_->Child(Lexicon::kRoot, label));
    const bool is_word = lexicon_ && IsWord(lexicon_->Child(Lexicon::kRoot, label));
    if (options_.closed && !is_hot && !is_word) return kForbidden;
  } else if (options_.closed) {
    for (auto [node, lexicon] : {std::pair{&to->lexicon_node, lexicon_},
                                 std::pair{&to->hot_word_node, hot_words_.get()}}) {
      if (*node != Lexicon::kNone) *node = lexicon ? lexicon->Child(*node, label) : Lexicon::kNone;
    }
    const bool begins_word =
        to->lexicon_node != Lexicon::kNone || to->hot_word_node != Lexicon::kNone;
    if (!begins_word) return kForbidden;
  }
  const uint32_t token = symbols_[label].token;
  double sum = 0;
  if (token != Symbol::kNoToken) {
    sum = AddToken(token, token == 0 && !is_hot ? options_.unknown_penalty : 0, to);
  }
  sum += MoveHot(label, to);
  if (!units_spell_words_) sum += MoveHot(HotPhrases::kBoundary, to);
  return sum;
}

bool Scorer::IsWord(uint32_t node) const {
  return node != Lexicon::kNone && lexicon_->Token(node) != Lexicon::kNone;
}

bool Scorer::IsHotWord(uint32_t node) const {
  return node != Lexicon::kNone && hot_words_->Token(node) != Lexicon::kNone;
}

double Scorer::Finish(const Context& from) const {
  Context after = from;
  double sum = from.in_word ? EndWord(from, &after) : 0;
  if (!from.in_word && !from.after_space) sum += EndUnits(&after);
  if (hot_phrases_) sum -= hot_phrases_->Credit(after.hot_state);
  if (language_model_ && options_.lm_weight != 0) {
    ds2_language_model_state end;
    sum += options_.lm_weight * language_model_->score(language_model_->model, &after.state,
                                                       language_model_->end_of_sentence, &end);
  }
  return sum;
}

// Ends the word that `from` is in.
double Scorer::EndWord(const Context& from, Context* to) const {
  uint32_t token = Lexicon::kNone;
  if (lexicon_ && from.lexicon_node != Lexicon::kNone) token = lexicon_->Token(from.lexicon_node);
  const bool is_hot = hot_words_ && IsHotWord(from.hot_word_node);
  const bool is_unknown = token == Lexicon::kNone;
  if (options_.closed && is_unknown && !is_hot) return kForbidden;
  to->in_word = false;
  to->lexicon_node = Lexicon::kRoot;
  to->hot_word_node = Lexicon::kRoot;
  // The language model may know a hot word that is not among the words allowed.
  if (is_unknown) token = is_hot ? hot_words_->Token(from.hot_word_node) : 0;
  const double penalty = token == 0 && !is_hot ? options_.unknown_penalty : 0;
  return AddToken(token, penalty, to) - Estimate(from) + MoveHot(HotPhrases::kBoundary, to);
}

// Ends the word that units spell, as characters do where a language model knows no words.
double Scorer::EndUnits(Context* to) const {
  if (!units_spell_words_) return 0;
  if (options_.closed) {
    const bool is_empty = to->lexicon_node == Lexicon::kRoot;
    const bool is_word = (lexicon_ && IsWord(to->lexicon_node)) ||
                         (hot_words_ && IsHotWord(to->hot_word_node));
    if (!is_empty && !is_word) return kForbidden;
    to->lexicon_node = to->hot_word_node = Lexicon::kRoot;
  }
  return MoveHot(HotPhrases::kBoundary, to);
}

double Scorer::AddToken(uint32_t token, double penalty, Context* to) const {
  if (!language_model_) return 0;
  const ds2_language_model_state before = to->state;
  const double log_probability =
      language_model_->score(language_model_->model, &before, token, &to->state);
  return options_.lm_weight * (log_probability + penalty) + options_.word_bonus;
}

// What the word that a context is in will be worth, without its neighbours.
double Scorer::Estimate(const Context& context) const {
  if (!context.in_word || !lexicon_) return 0;
  if (context.lexicon_node != Lexicon::kNone) {
    return options_.lm_weight * lexicon_->Best(context.lexicon_node);
  }
  const bool may_be_hot = hot_words_ && context.hot_word_node != Lexicon::kNone;
  return options_.lm_weight * (unknown_log_ + (may_be_hot ? 0 : options_.unknown_penalty));
}

double Scorer::MoveHot(int32_t label, Context* to) const {
  if (!hot_phrases_) return 0;
  const float credit = hot_phrases_->Credit(to->hot_state);
  to->hot_state = hot_phrases_->Next(to->hot_state, label);
  return hot_phrases_->Reward(to->hot_state) + hot_phrases_->Credit(to->hot_state) - credit;
}

}  // namespace ds2::decoder
