#include "ds2_tf/native/decoder/word_mass.h"

#include <algorithm>
#include <numeric>

namespace ds2::decoder {
namespace {

using Labels = std::vector<int32_t>;

struct Word {
  Labels labels;
  size_t begin, end;  // In the text.

  bool operator==(const Word& other) const { return labels == other.labels; }
};

std::vector<Word> Split(const Labels& text,
                        const std::function<Separation(int32_t)>& separation) {
  std::vector<Word> words;
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const Separation kind = separation(text[i]);
    if (kind == Separation::kSpace) {
      in_word = false;
      continue;
    }
    if (kind == Separation::kWord || !in_word) words.push_back({{}, i, i});
    words.back().labels.push_back(text[i]);
    words.back().end = i + 1;
    in_word = kind == Separation::kLetter;
  }
  return words;
}

// Adds `probability` to the masses of the words that another text has in the same place.
void AddShared(const std::vector<Word>& words, const std::vector<Word>& others, double probability,
               std::vector<double>* masses) {
  size_t begin = 0, end = words.size(), other_end = others.size();
  while (begin < end && begin < other_end && words[begin] == others[begin]) {
    (*masses)[begin++] += probability;
  }
  while (begin < end && begin < other_end && words[end - 1] == others[other_end - 1]) {
    (*masses)[--end] += probability;
    --other_end;
  }
  // What is left in between: errors[i][j] between the first i words and the first j others.
  const size_t rows = end - begin + 1, columns = other_end - begin + 1;
  if (rows == 1 || columns == 1) return;
  std::vector<uint32_t> errors(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      uint32_t& least = errors[i * columns + j];
      if (i == 0 || j == 0) {
        least = static_cast<uint32_t>(i + j);
        continue;
      }
      const bool same = words[begin + i - 1] == others[begin + j - 1];
      least = std::min({errors[(i - 1) * columns + j - 1] + (same ? 0 : 1),
                        errors[(i - 1) * columns + j] + 1, errors[i * columns + j - 1] + 1});
    }
  }
  for (size_t i = rows - 1, j = columns - 1; i > 0 && j > 0;) {
    const bool same = words[begin + i - 1] == others[begin + j - 1];
    const uint32_t least = errors[i * columns + j];
    if (least == errors[(i - 1) * columns + j - 1] + (same ? 0 : 1)) {
      if (same) (*masses)[begin + i - 1] += probability;
      --i, --j;
    } else if (least == errors[(i - 1) * columns + j] + 1) {
      --i;
    } else {
      --j;
    }
  }
}

}  // namespace

std::vector<float> WordMasses(const std::vector<std::vector<int32_t>>& texts,
                              const std::vector<double>& probabilities, size_t which,
                              const std::function<Separation(int32_t)>& separation) {
  const std::vector<Word> words = Split(texts[which], separation);
  std::vector<double> masses(words.size());
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (size_t i = 0; i < texts.size(); ++i) {
    AddShared(words, Split(texts[i], separation), probabilities[i] / sum, &masses);
  }
  std::vector<float> of_symbols(texts[which].size(), 1);
  for (size_t w = 0; w < words.size(); ++w) {
    for (size_t i = words[w].begin; i < words[w].end; ++i) {
      of_symbols[i] = static_cast<float>(std::min(masses[w], 1.0));
    }
  }
  return of_symbols;
}

}  // namespace ds2::decoder
