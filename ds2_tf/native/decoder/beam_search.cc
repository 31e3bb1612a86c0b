#include "ds2_tf/native/decoder/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ds2_tf/native/decoder/alignment.h"

namespace ds2::decoder {
namespace {

constexpr size_t kMemorySize = 1 << 10;
// Times are found when so many frames wait for them, and a word is agreed on. (5 seconds.)
constexpr size_t kCommitFrames = 256;
// So many frames are held at most: hypotheses that disagree on older ones are given up. (a minute)
constexpr size_t kMaxFrames = 3072;

}  // namespace

BeamSearch::BeamSearch(const SearchOptions& options, const Scorer& scorer)
    : options_(options),
      scorer_(scorer),
      threshold_factor_(std::exp(-options.score_threshold)),
      weight_of_label_(options.num_labels, 0),
      rank_of_label_(options.num_labels, -1),
      memory_(kMemorySize) {
  Reset();
}

void BeamSearch::Restart() {
  num_frames_ = 0;
  Reset();
}

void BeamSearch::Reset() {
  tree_.Reset(options_.space, scorer_.Start());
  tree_[tree_.root()].slot = 0;
  beam_ = {{tree_.root(), 1, 0}};
  best_total_ = 1;
  log_scale_ = 0;
  first_held_frame_ = num_frames_;
  frames_.Clear();
  agreed_.clear();
  committed_.clear();
}

std::string BeamSearch::Step(const float* log_probabilities, size_t num_frames) {
  for (size_t t = 0; t < num_frames; ++t) {
    const float* row = log_probabilities + t * options_.num_labels;
    const std::string problem = frames_.Add(row, options_.num_labels, options_.cutoff_probability,
                                            options_.cutoff_symbols);
    if (!problem.empty()) return "frame " + std::to_string(num_frames_) + " " + problem;
    Advance();
    ++num_frames_;
    Commit();
  }
  return "";
}

bool BeamSearch::is_empty() const {
  if (!committed_.empty() || !agreed_.empty()) return false;
  return BestLive().prefix == tree_.root();
}

// Moves the beam over the newest frame.
void BeamSearch::Advance() {
  const size_t frame = frames_.size() - 1;
  kept_.clear();
  weights_.clear();
  blank_weight_ = 0;
  // Relative to the best hypothesis and to the best symbol all numbers stay in range.
  const double best_log = frames_.begin(frame)->log_probability;
  const double scale = 1 / best_total_;
  for (auto kept = frames_.begin(frame); kept != frames_.end(frame); ++kept) {
    const double weight = scale * std::exp(kept->log_probability - best_log);
    if (kept->label == kBlank) {
      blank_weight_ = weight;
    } else {
      rank_of_label_[kept->label] = static_cast<int32_t>(kept_.size());
      weight_of_label_[kept->label] = weight;
      kept_.push_back(*kept);
      weights_.push_back(weight);
    }
  }
  const double largest = weights_.empty() ? blank_weight_ : std::max(blank_weight_, weights_[0]);
  heard_weight_ = options_.hot_space_share * largest;
  Stay();
  Merge();
  double best = 0;
  double smallest = std::numeric_limits<double>::infinity();
  for (size_t slot = 0; slot < beam_.size(); ++slot) {
    const double total = stay_blank_[slot] + stay_nonblank_[slot];
    best = std::max(best, total);
    smallest = std::min(smallest, total);
  }
  double cut = best * threshold_factor_;
  // A full beam of hypotheses that stay leaves no room for less.
  if (beam_.size() == static_cast<size_t>(options_.beam_width)) cut = std::max(cut, smallest);
  candidates_.clear();
  for (size_t slot = 0; slot < beam_.size(); ++slot) {
    const double total = stay_blank_[slot] + stay_nonblank_[slot];
    if (total > 0 && total >= cut) {
      candidates_.push_back({total, static_cast<uint32_t>(slot), 0});
    }
  }
  cut = Expand(cut);
  Select(cut);
  if (!candidates_.empty()) {
    log_scale_ += std::log(best_total_) + best_log;
    Materialize();
  }  // Else nobody may go on as the frame says, as where words are limited: it passes unheard.
  for (const SymbolProbability& kept : kept_) {
    rank_of_label_[kept.label] = -1;
    weight_of_label_[kept.label] = 0;
  }
}

// The paths by which each hypothesis stays as it is: a blank, or its last symbol again.
void BeamSearch::Stay() {
  stay_blank_.resize(beam_.size());
  stay_nonblank_.resize(beam_.size());
  for (size_t slot = 0; slot < beam_.size(); ++slot) {
    const Live& live = beam_[slot];
    const int32_t symbol = tree_[live.prefix].symbol;
    stay_blank_[slot] = live.total() * blank_weight_;
    const double before = symbol == options_.space ? live.total() : live.nonblank;
    stay_nonblank_[slot] = symbol == kBlank ? 0 : before * weight_of_label_[symbol];
  }
}

// The paths from one hypothesis to another that is in the beam already.
void BeamSearch::Merge() {
  is_merged_.assign(beam_.size() * kept_.size(), 0);
  for (size_t slot = 0; slot < beam_.size(); ++slot) {
    const Prefix& prefix = tree_[beam_[slot].prefix];
    if (prefix.parent == Prefix::kNone) continue;
    const int32_t parent_slot = tree_[prefix.parent].slot;
    const int32_t rank = rank_of_label_[prefix.symbol];
    if (parent_slot == Prefix::kInactive || rank < 0) continue;
    is_merged_[static_cast<size_t>(parent_slot) * kept_.size() + rank] = 1;
    stay_nonblank_[slot] +=
        Base(beam_[parent_slot], prefix.symbol) * weights_[rank] * prefix.factor;
  }
}

// The probability of the paths of a hypothesis that a symbol can continue: a repeated symbol needs
// a blank before it.
double BeamSearch::Base(const Live& live, int32_t symbol) const {
  return tree_[live.prefix].symbol == symbol ? live.blank : live.total();
}

// Adds the hypotheses that a symbol more makes and that are not below the cut; returns the new cut.
double BeamSearch::Expand(double cut) {
  const bool has_hot_phrases = scorer_.has_hot_phrases();
  for (size_t slot = 0; slot < beam_.size() && !weights_.empty(); ++slot) {
    const Live& live = beam_[slot];
    const Prefix& prefix = tree_[live.prefix];
    const Context& context = prefix.context;
    const double total = live.total();
    const double letter_bound = scorer_.LetterBound(context);
    const double token_bound = scorer_.TokenBound(context);
    const double bound = std::max(letter_bound, token_bound);
    if (total * weights_[0] * bound < cut) continue;
    const uint8_t* is_merged = is_merged_.data() + slot * kept_.size();
    for (size_t rank = 0; rank < kept_.size(); ++rank) {
      const double reached = total * weights_[rank];
      if (reached * bound < cut) break;
      const int32_t symbol = kept_[rank].label;
      if (is_merged[rank] || (symbol == options_.space && prefix.symbol == symbol)) continue;
      if (has_hot_phrases && symbol == options_.space && weights_[rank] < heard_weight_ &&
          scorer_.EndsHotPhrase(context)) {
        continue;
      }
      const double base = prefix.symbol == symbol ? live.blank * weights_[rank] : reached;
      double factor;
      if (scorer_.kind(symbol) == SymbolKind::kLetter && !has_hot_phrases) {
        if (base * letter_bound < cut) continue;
        factor = scorer_.LetterFactor(context, symbol);
      } else {
        const bool is_letter = scorer_.kind(symbol) == SymbolKind::kLetter;
        if (base * (is_letter ? letter_bound : token_bound) < cut) continue;
        factor = Factor(live.prefix, symbol);
      }
      AddCandidate(base * factor, static_cast<uint32_t>(slot), symbol, &cut);
    }
  }
  return cut;
}

void BeamSearch::AddCandidate(double total, uint32_t slot, int32_t symbol, double* cut) {
  if (!(total > 0) || total < *cut) return;
  candidates_.push_back({total, slot, symbol});
  *cut = std::max(*cut, total * threshold_factor_);
  if (candidates_.size() >= 4 * static_cast<size_t>(options_.beam_width)) *cut = Select(*cut);
}

// Leaves the best candidates, at most as many as the beam is wide; returns the new cut.
double BeamSearch::Select(double cut) {
  const auto width = static_cast<size_t>(options_.beam_width);
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(),
                                   [cut](const Candidate& c) { return c.total < cut; }),
                    candidates_.end());
  if (candidates_.size() <= width) return cut;
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(width) - 1;
  std::nth_element(candidates_.begin(), last, candidates_.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (a.total != b.total) return a.total > b.total;
                     if (a.slot != b.slot) return a.slot < b.slot;
                     return a.symbol < b.symbol;
                   });
  candidates_.resize(width);
  return candidates_.back().total;
}

// Makes the candidates the beam.
void BeamSearch::Materialize() {
  next_beam_.clear();
  best_total_ = 0;
  for (const Live& live : beam_) tree_[live.prefix].slot = Prefix::kInactive;
  for (const auto& [total, slot, symbol] : candidates_) {
    uint32_t prefix = beam_[slot].prefix;
    Live live{prefix, stay_blank_[slot], stay_nonblank_[slot]};
    if (symbol != 0) {
      uint32_t child = tree_.Find(prefix, symbol);
      if (child == Prefix::kNone) {
        child = tree_.Make(prefix, symbol);
        const double added =
            scorer_.Extend(tree_[prefix].context, symbol, &tree_[child].context);
        tree_[child].factor = std::exp(added);
        tree_[child].language = tree_[prefix].language + added;
      }
      live = {child, 0, total};
    }
    tree_[live.prefix].slot = static_cast<int32_t>(next_beam_.size());
    next_beam_.push_back(live);
    best_total_ = std::max(best_total_, total);
  }
  beam_.swap(next_beam_);
  for (const Live& live : next_beam_) {
    if (tree_[live.prefix].slot == Prefix::kInactive) tree_.Release(live.prefix);
  }
}

// What a symbol multiplies a hypothesis by. Remembered, since hypotheses try the same symbols frame
// after frame, and the language model is slow.
double BeamSearch::Factor(uint32_t prefix, int32_t symbol) {
  const uint64_t serial = tree_[prefix].serial;
  const uint64_t hash = (serial * 0x9E3779B97F4A7C15u) ^
                        (static_cast<uint64_t>(symbol) * 0xC2B2AE3D27D4EB4Fu);
  Remembered& remembered = memory_[(hash >> 40) % kMemorySize];
  if (remembered.serial != serial || remembered.symbol != symbol) {
    remembered = {serial, symbol, std::exp(scorer_.Extend(tree_[prefix].context, symbol, nullptr))};
  }
  return remembered.factor;
}

// Whether words are complete after a symbol.
bool BeamSearch::IsBoundary(int32_t symbol) const {
  if (symbol == options_.space) return true;
  const auto& [first, second] = scorer_.characters(symbol);
  return !scorer_.units_spell_words() &&
         scorer_.kind(second == 0 ? first : second) == SymbolKind::kUnit;
}

// Gives times to what all hypotheses agree on, and forgets the frames up to there.
void BeamSearch::Commit() {
  while (tree_.AdvanceRoot()) agreed_.push_back(tree_[tree_.root()].symbol);
  if (frames_.size() < kCommitFrames) return;
  const bool is_forced = frames_.size() >= kMaxFrames;
  if (is_forced) Agree();
  size_t count = agreed_.size();
  while (count > 0 && !IsBoundary(agreed_[count - 1])) --count;
  if (count == 0 && is_forced) count = agreed_.size();
  if (count > 0) {
    std::vector<int32_t> symbols = agreed_;
    const std::vector<int32_t> rest = tree_.SymbolsTo(BestLive().prefix);
    symbols.insert(symbols.end(), rest.begin(), rest.end());
    const auto emissions = Align(frames_, options_.num_labels, symbols, options_.space);
    for (size_t i = 0; i < count; ++i) committed_.push_back(Timed(symbols[i], emissions[i], 1));
    agreed_.erase(agreed_.begin(), agreed_.begin() + static_cast<std::ptrdiff_t>(count));
    DropFrames(std::min(emissions[count - 1].end, frames_.size() - 1));
  } else if (is_forced) {  // Nothing was said for so long.
    DropFrames(frames_.size() - kCommitFrames);
  }
}

void BeamSearch::DropFrames(size_t count) {
  frames_.Drop(count);
  first_held_frame_ += static_cast<int64_t>(count);
}

TimedSymbol BeamSearch::Timed(int32_t label, const Emission& emission, float word_mass) const {
  return {label, first_held_frame_ + static_cast<int64_t>(emission.first),
          first_held_frame_ + static_cast<int64_t>(emission.end), emission.log_probability,
          word_mass};
}

const BeamSearch::Live& BeamSearch::BestLive() const {
  return *std::max_element(beam_.begin(), beam_.end(), [](const Live& a, const Live& b) {
    return a.total() < b.total();
  });
}

// Gives up the hypotheses that do not agree with the best one on its oldest word.
void BeamSearch::Agree() {
  const uint32_t best = BestLive().prefix;
  uint32_t ancestor = best;
  for (uint32_t p = best; p != tree_.root(); p = tree_[p].parent) {
    if (IsBoundary(tree_[p].symbol)) ancestor = p;
  }
  KeepDescendants(ancestor);
  while (tree_.AdvanceRoot()) agreed_.push_back(tree_[tree_.root()].symbol);
}

void BeamSearch::KeepDescendants(uint32_t ancestor) {
  next_beam_.clear();
  std::vector<uint32_t> dropped;
  for (const Live& live : beam_) {
    uint32_t p = live.prefix;
    while (p != ancestor && p != Prefix::kNone) p = tree_[p].parent;
    if (p == Prefix::kNone) {
      tree_[live.prefix].slot = Prefix::kInactive;
      dropped.push_back(live.prefix);
    } else {
      tree_[live.prefix].slot = static_cast<int32_t>(next_beam_.size());
      next_beam_.push_back(live);
    }
  }
  beam_.swap(next_beam_);
  for (const uint32_t prefix : dropped) tree_.Release(prefix);
}

}  // namespace ds2::decoder
