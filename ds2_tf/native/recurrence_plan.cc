#include <algorithm>
#include <numeric>

#include "ds2_tf/native/recurrence.h"

namespace ds2 {

RecurrencePlan::RecurrencePlan(const int32_t* lengths, int64_t num_utterances)
    : utterances_(num_utterances), ranks_(num_utterances), lengths_(num_utterances) {
  std::iota(utterances_.begin(), utterances_.end(), 0);
  std::stable_sort(utterances_.begin(), utterances_.end(),
                   [lengths](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  for (int64_t rank = 0; rank < num_utterances; ++rank) {
    ranks_[utterances_[rank]] = rank;
    lengths_[rank] = lengths[utterances_[rank]];
  }
  offsets_.push_back(0);
  int64_t active = num_utterances;
  for (int64_t step = 0;; ++step) {
    while (active > 0 && lengths_[active - 1] <= step) --active;
    if (active == 0) break;
    offsets_.push_back(offsets_.back() + active);
  }
}

}  // namespace ds2
