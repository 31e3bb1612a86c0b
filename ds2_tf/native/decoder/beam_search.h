// CTC prefix beam search: the texts that are worth most, offline and in streams.
//
// Source: Deep Speech 2, sections 3.8 and 7.3.

#ifndef DS2_TF_NATIVE_DECODER_BEAM_SEARCH_H_
#define DS2_TF_NATIVE_DECODER_BEAM_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ds2_tf/native/decoder/alignment.h"
#include "ds2_tf/native/decoder/frames.h"
#include "ds2_tf/native/decoder/prefix_tree.h"
#include "ds2_tf/native/decoder/scorer.h"

namespace ds2::decoder {

struct SearchOptions {
  int num_labels;             // V, with the blank.
  int32_t space;              // Label of the space, or 0.
  int beam_width;             // Hypotheses that live on after a frame.
  double cutoff_probability;  // Symbols of a frame: see Frames::Add.
  int cutoff_symbols;
  double score_threshold;  // Nats below the best hypothesis, at most 600.
  // A hot phrase ends at a space only in frames in which the space has this share of the largest
  // probability: else a boost would pay for spaces that split the words around it.
  double hot_space_share;
};

// A symbol of a hypothesis. Frames count from the stream's start.
struct TimedSymbol {
  int32_t label;
  int64_t first_frame;
  int64_t end_frame;
  float log_probability;  // Its largest in these frames.
  float word_mass;        // The share of the hypotheses, by their probability, that have its word.
};

// What was said, with natural logarithms of scores; score = acoustic + language.
struct Hypothesis {
  std::vector<TimedSymbol> symbols;
  double score;
  double language;
};

// The search through one stream. It decides nothing by how frames are handed in, holds a bounded
// number of frames, and must be used by one thread at a time.
//
// A text's probability is that of all paths that spell it; spaces count once however often they
// are repeated, and not at all before and after the text. Probabilities are kept as they are, not
// as logarithms, relative to the best hypothesis: sums need neither exp nor log, and a double holds
// what lies 600 nats below the best. The language score is multiplied into them, which is right
// because all paths to a prefix have the same.
class BeamSearch {
 public:
  // The scorer is copied; what it refers to must outlive the search.
  BeamSearch(const SearchOptions& options, const Scorer& scorer);

  // Takes frames [num_frames, num_labels] of log-probabilities. Returns what is wrong with the
  // first frame that cannot be used, before which the search stops, or an empty string.
  std::string Step(const float* log_probabilities, size_t num_frames);

  // Returns the best hypotheses, at most `count`, at least one. With `is_end` they are complete:
  // their last word and the sentence end here. Changes nothing.
  // The first `first_symbol` symbols, which are known not to change, are left out.
  std::vector<Hypothesis> Best(size_t count, bool is_end, size_t first_symbol = 0) const;

  // Begins a new text; frames count on.
  void Reset();

  // Begins a new stream.
  void Restart();

  size_t num_committed() const { return committed_.size(); }  // Symbols that do not change.

  int64_t num_frames() const { return num_frames_; }
  size_t num_prefixes() const { return tree_.size(); }
  size_t num_held_frames() const { return frames_.size(); }
  bool is_empty() const;  // Whether the best hypothesis has no symbol. Cheap.

 private:
  struct Live {
    uint32_t prefix;
    double blank;     // Probability of the paths that end in a blank,
    double nonblank;  // and of those that end in the prefix' last symbol.
    double total() const { return blank + nonblank; }
  };
  struct Candidate {
    double total;
    uint32_t slot;   // Of a hypothesis that stays, or is continued by
    int32_t symbol;  // this symbol; 0 if it stays.
  };
  struct Ending {
    uint32_t prefix;
    double share;  // Of `total`: this prefix' own.
    double total;
    double language;
  };
  struct Remembered {
    uint64_t serial = 0;
    int32_t symbol = 0;
    double factor = 0;
  };

  void Advance();
  void Stay();
  void Merge();
  double Expand(double cut);
  double Select(double cut);
  void Materialize();
  double Factor(uint32_t prefix, int32_t symbol);
  double Base(const Live& live, int32_t symbol) const;
  void AddCandidate(double total, uint32_t slot, int32_t symbol, double* cut);
  bool IsBoundary(int32_t symbol) const;
  void Commit();
  void Agree();
  void DropFrames(size_t count);
  TimedSymbol Timed(int32_t label, const Emission& emission, float word_mass) const;
  const Live& BestLive() const;
  void KeepDescendants(uint32_t ancestor);
  std::vector<Ending> Endings(bool is_end) const;
  std::vector<Ending> MergedByText(const std::vector<Ending>& endings) const;
  std::vector<int32_t> Characters(const std::vector<int32_t>& symbols) const;

  const SearchOptions options_;
  const Scorer scorer_;
  const double threshold_factor_;
  PrefixTree tree_;
  std::vector<Live> beam_, next_beam_;
  double best_total_ = 1;
  double log_scale_ = 0;
  int64_t num_frames_ = 0;
  int64_t first_held_frame_ = 0;
  Frames frames_;                     // Since the last symbol of `committed_`.
  std::vector<int32_t> agreed_;       // Symbols up to the root that have no time yet.
  std::vector<TimedSymbol> committed_;  // Those before.

  // Of the frame in hand.
  std::vector<SymbolProbability> kept_;  // Without the blank; probabilities are in `weights_`.
  std::vector<double> weights_;
  std::vector<double> weight_of_label_;  // 0 for those not kept.
  std::vector<int32_t> rank_of_label_;
  double blank_weight_ = 0;
  double heard_weight_ = 0;  // What a space that ends a hot phrase must have.
  std::vector<double> stay_blank_, stay_nonblank_;
  std::vector<uint8_t> is_merged_;  // [hypothesis, kept symbol]
  std::vector<Candidate> candidates_;
  std::vector<Remembered> memory_;
};

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_BEAM_SEARCH_H_
