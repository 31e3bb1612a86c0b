// When each symbol of a text was said.

#ifndef DS2_TF_NATIVE_DECODER_ALIGNMENT_H_
#define DS2_TF_NATIVE_DECODER_ALIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/decoder/frames.h"

namespace ds2::decoder {

// The frames [first, end) in which a symbol is written, and its largest log-probability in them.
struct Emission {
  size_t first;
  size_t end;
  float log_probability;
};

// Returns the emissions of symbols on the most probable path through all frames (Viterbi). Spaces
// may be repeated after a space, and before and after all symbols. Symbols that the frames cannot
// hold, which a search never finds, are written in the last frame.
//
// `space` is the label of the space, or 0 if there is none.
std::vector<Emission> Align(const Frames& frames, int num_labels,
                            const std::vector<int32_t>& symbols, int32_t space);

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_ALIGNMENT_H_
