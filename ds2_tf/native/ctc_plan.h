// What every instruction set's form of the CTC algorithm works on: the utterance, its labels
// prepared, and the workspace divided into arrays. Internal to the library.
//
// The 2U+1 states of CTC are kept as two arrays, so that vector instructions see no interleaving:
// state "blank u" comes before label u (blank U after the last), state "label u" emits label u.

#ifndef DS2_TF_NATIVE_CTC_PLAN_H_
#define DS2_TF_NATIVE_CTC_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "ctc.h"

namespace ds2 {

// No vector of doubles is longer; arrays are padded to whole vectors and aligned to them.
constexpr int kMaxDoubleLanes = 8;

// A column of states: padding whose last element stands left of label 0 and is zero, the labels,
// the blanks, and padding.
struct CtcPlan {
  CtcUtterance utterance;

  int num_slots;      // distinct symbols of the target: the blank, then labels as they appear
  int padded_slots;   // to whole vectors; the slots past num_slots have emission zero
  int padded_states;  // U+1 padded to whole vectors
  int column_size;    // doubles from one column to the next

  int32_t* slot_symbols;  // [padded_slots]
  int32_t* label_slots;   // [padded_states]; the padding points at a slot of emission zero
  double* can_skip;  // [padded_states + a vector]: 1 where a path may step from the label before to
                     // this one, 0 where both are equal (they need the blank between them)

  double* emissions;       // [T, padded_slots], relative to the frame's likeliest slot
  double* frame_mass;      // [T], the most that a state's successors emit together
  double* target_logits;   // [T], the largest logit among the slots
  double* softmax_sums;    // [T], of e^(logit - largest logit of the frame)
  double* softmax_ratios;  // [T]: emission times this is the softmax
  double* alphas;          // [T + 1, column_size], the first column before any frame
  double* alpha_exponents;  // like alphas, for the wide range alone

  double* beta_columns[2];
  double* beta_exponents[2];
  double* label_emissions;           // [padded_states]
  double* label_emission_exponents;  // [padded_states]
  double* products;                  // [column_size]
  double* product_exponents;         // [column_size]
  double* slot_exponents;            // [padded_slots]
  double* occupancies;               // [padded_slots]

  float* row;           // [V padded], the frame's logits as floats
  float* exponentials;  // [V padded]
};

// Offsets of the two kinds of states in a column, and its size.
inline int LabelOffset() { return kMaxDoubleLanes; }
inline int BlankOffset(const CtcPlan& plan) { return 2 * kMaxDoubleLanes + plan.padded_states; }

// Divides the workspace and prepares the labels, which must be valid.
CtcPlan MakeCtcPlan(const CtcUtterance& utterance, void* workspace);

// One compiled form of the algorithm: fills the gradient and returns the result of an utterance
// whose lengths and labels are valid and that has enough frames. The rows of the gradient past
// num_frames, and all rows if the status isn't kOk, are the caller's to zero.
using CtcFunction = CtcResult (*)(const CtcPlan& plan);

CtcFunction CtcFunctionFor(InstructionSet instruction_set);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_PLAN_H_
