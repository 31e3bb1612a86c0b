// The probabilities that the search uses: of each frame the few symbols that matter.

#ifndef DS2_TF_NATIVE_DECODER_FRAMES_H_
#define DS2_TF_NATIVE_DECODER_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ds2::decoder {

constexpr int32_t kBlank = 0;

struct SymbolProbability {
  int32_t label;
  float log_probability;
};

// The symbols kept of each frame, the most probable first; the blank is one of them, unless it is
// impossible. Frames are counted from the first that is still held.
class Frames {
 public:
  size_t size() const { return ends_.size(); }
  const SymbolProbability* begin(size_t frame) const {
    return kept_.data() + (frame == 0 ? 0 : ends_[frame - 1]);
  }
  const SymbolProbability* end(size_t frame) const { return kept_.data() + ends_[frame]; }

  // Forgets the first `count` frames.
  void Drop(size_t count);

  void Clear() {
    kept_.clear();
    ends_.clear();
  }

  // Keeps the fewest symbols of a frame whose probabilities add up to `cutoff_probability`, at most
  // `cutoff_symbols`, and the blank. Returns what is wrong with the frame, which is not kept then,
  // or an empty string.
  //
  // Source: Deep Speech 2, section 7.3.
  std::string Add(const float* log_probabilities, int num_labels, double cutoff_probability,
                  int cutoff_symbols);

 private:
  std::vector<SymbolProbability> kept_;
  std::vector<size_t> ends_;
  std::vector<SymbolProbability> candidates_;
};

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_FRAMES_H_
