// How sure the beam is of each word.

#ifndef DS2_TF_NATIVE_DECODER_WORD_MASS_H_
#define DS2_TF_NATIVE_DECODER_WORD_MASS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ds2::decoder {

// What a symbol is to words: a part of one, one by itself, or none.
enum class Separation { kLetter, kWord, kSpace };

// Texts beyond these, the best, weigh next to nothing.
constexpr size_t kMaxMassTexts = 64;

// Returns for each symbol of texts[which] the share of all texts' probability that those have which
// hold its word in the same place (by the least number of word errors); 1 for a space.
std::vector<float> WordMasses(const std::vector<std::vector<int32_t>>& texts,
                              const std::vector<double>& probabilities, size_t which,
                              const std::function<Separation(int32_t)>& separation);

}  // namespace ds2::decoder

#endif  // DS2_TF_NATIVE_DECODER_WORD_MASS_H_
