// Runs all cells, precisions and instruction sets on arrays of exactly the size they need, for the
// sanitizers.

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/native/recurrence_c_api.cc"

namespace {

void Run(int cell, int precision, int set, bool shared, int64_t units,
         const std::vector<int32_t>& lengths) {
  constexpr int64_t kDirections = 2;
  constexpr int64_t kFrames = 6;
  const int64_t num_utterances = lengths.size();
  const int64_t values = (cell == 1 ? 3 : 1) * units;
  const int64_t width = shared ? values : kDirections * values;
  const int64_t states = kDirections * num_utterances * units;
  std::vector<float> projected(num_utterances * kFrames * width, 0.5f);
  std::vector<float> weights(kDirections * units * values, 0.1f);
  std::vector<float> initial(states, 1.0f);
  std::vector<float> outputs(num_utterances * kFrames * units);
  std::vector<float> final(states);
  std::vector<float> by_outputs(outputs.size(), 1.0f);
  std::vector<float> by_final(states, 1.0f);
  std::vector<float> by_projected(projected.size());
  std::vector<float> by_weights(weights.size());
  std::vector<float> by_initial(states);
  ds2_recurrence(cell, precision, set, 2, shared, kDirections, num_utterances, kFrames, units,
                 lengths.data(), projected.data(), weights.data(), initial.data(), outputs.data(),
                 final.data(), by_outputs.data(), by_final.data(), by_projected.data(),
                 by_weights.data(), by_initial.data());
}

}  // namespace

int main() {
  for (int set = 0; set <= ds2_best_instruction_set(); ++set) {
    for (int precision = 0; precision < 2; ++precision) {
      for (int cell = 0; cell < 2; ++cell) {
        for (const int64_t units : {1, 17, 48, 65}) {
          for (const std::vector<int32_t>& lengths : std::vector<std::vector<int32_t>>{
                   {6}, {3, 0, 6, 1, 5}, std::vector<int32_t>(19, 4)}) {
            Run(cell, precision, set, true, units, lengths);
            Run(cell, precision, set, false, units, lengths);
          }
        }
      }
    }
  }
}
