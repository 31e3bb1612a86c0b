#include "ctc_plan.h"

#include <algorithm>

namespace ds2 {
namespace {

constexpr size_t kAlignment = 64;
// Rows of floats may be read and written in whole vectors past their end.
constexpr int kMaxFloatLanes = 16;

int RoundUp(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Hands out aligned arrays one after another; from a null base it only counts.
class Arena {
 public:
  explicit Arena(void* base) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(base);
    position_ = (address + kAlignment - 1) / kAlignment * kAlignment;
  }

  template <typename T>
  T* Take(size_t count) {
    T* array = reinterpret_cast<T*>(position_);
    position_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }

  uintptr_t position() const { return position_; }

 private:
  uintptr_t position_;
};

void Divide(Arena* arena, int num_frames, int num_symbols, CtcPlan* plan) {
  const size_t frames = num_frames;
  plan->slot_symbols = arena->Take<int32_t>(plan->padded_slots);
  plan->label_slots = arena->Take<int32_t>(plan->padded_states);
  plan->can_skip = arena->Take<double>(plan->padded_states + kMaxDoubleLanes);
  plan->emissions = arena->Take<double>(frames * plan->padded_slots);
  plan->frame_mass = arena->Take<double>(RoundUp(num_frames, kMaxDoubleLanes));
  plan->target_logits = arena->Take<double>(RoundUp(num_frames, kMaxDoubleLanes));
  plan->softmax_sums = arena->Take<double>(RoundUp(num_frames, kMaxDoubleLanes));
  plan->softmax_ratios = arena->Take<double>(RoundUp(num_frames, kMaxDoubleLanes));
  for (double*& column : plan->beta_columns) column = arena->Take<double>(plan->column_size);
  for (double*& column : plan->beta_exponents) column = arena->Take<double>(plan->column_size);
  plan->label_emissions = arena->Take<double>(plan->padded_states);
  plan->label_emission_exponents = arena->Take<double>(plan->padded_states);
  plan->products = arena->Take<double>(plan->column_size);
  plan->product_exponents = arena->Take<double>(plan->column_size);
  plan->slot_exponents = arena->Take<double>(plan->padded_slots);
  plan->occupancies = arena->Take<double>(plan->padded_slots);
  plan->row = arena->Take<float>(num_symbols + kMaxFloatLanes);
  plan->exponentials = arena->Take<float>(num_symbols + kMaxFloatLanes);
  plan->alphas = arena->Take<double>((frames + 1) * plan->column_size);
  // Last: memory that is not touched unless an utterance needs the wide range.
  plan->alpha_exponents = arena->Take<double>((frames + 1) * plan->column_size);
}

void SetSizes(int num_labels, int num_slots, CtcPlan* plan) {
  plan->num_slots = num_slots;
  plan->padded_slots = RoundUp(num_slots + 1, kMaxDoubleLanes);
  plan->padded_states = RoundUp(num_labels + 1, kMaxDoubleLanes);
  plan->column_size = 2 * plan->padded_states + 3 * kMaxDoubleLanes;
}

}  // namespace

size_t CtcWorkspaceBytes(int num_frames, int num_labels, int num_symbols) {
  CtcPlan plan;
  SetSizes(num_labels, std::min(num_labels, num_symbols) + 1, &plan);
  Arena arena(nullptr);
  // The map from symbols to slots.
  arena.Take<int32_t>(num_symbols);
  Divide(&arena, num_frames, num_symbols, &plan);
  return arena.position() + kAlignment;
}

CtcPlan MakeCtcPlan(const CtcUtterance& utterance, void* workspace) {
  CtcPlan plan;
  plan.utterance = utterance;
  const int32_t* labels = utterance.labels;
  const int num_labels = utterance.num_labels;

  Arena arena(workspace);
  int32_t* slots = arena.Take<int32_t>(utterance.num_symbols);
  // Only the entries of symbols that occur are ever read: a vocabulary's worth is not cleared.
  for (int u = 0; u < num_labels; ++u) slots[labels[u]] = 0;
  int num_slots = 1;
  for (int u = 0; u < num_labels; ++u) {
    if (slots[labels[u]] == 0) slots[labels[u]] = num_slots++;
  }
  SetSizes(num_labels, num_slots, &plan);
  Divide(&arena, utterance.num_frames, utterance.num_symbols, &plan);

  std::fill_n(plan.slot_symbols, plan.padded_slots, utterance.blank);
  std::fill_n(plan.label_slots, plan.padded_states, num_slots);
  std::fill_n(plan.can_skip, plan.padded_states + kMaxDoubleLanes, 0.0);
  for (int u = 0; u < num_labels; ++u) {
    plan.slot_symbols[slots[labels[u]]] = labels[u];
    plan.label_slots[u] = slots[labels[u]];
    plan.can_skip[u] = u > 0 && labels[u] != labels[u - 1] ? 1.0 : 0.0;
  }
  return plan;
}

}  // namespace ds2
