// The whole algorithm for one instruction set. No include guard: for_each_instruction_set.h
// includes this file once for each.

namespace ds2 {
namespace DS2_SET {
namespace {

#include "ctc_lanes_inl.h"
#include "ctc_softmax_inl.h"
#include "ctc_linear_inl.h"
#include "ctc_wide_inl.h"

template <typename T>
DS2_TARGET CtcResult RunTyped(const CtcPlan& plan) {
  const bool needs_gradients = plan.utterance.gradients != nullptr;
  const SoftmaxResult softmax = SoftmaxPass<T>(plan);
  if (!softmax.valid) return {CtcStatus::kInvalidLogit, NAN, false};
  if (!softmax.possible) return {CtcStatus::kImpossible, INFINITY, false};
  if (softmax.in_range) {
    const LinearForward forward = ForwardPass(plan);
    if (forward.certified) {
      if (needs_gradients) BackwardPass<T>(plan);
      return {CtcStatus::kOk, static_cast<float>(softmax.log_scale - forward.log_probability),
              false};
    }
  }
  const double log_probability = WideForwardPass<T>(plan);
  if (log_probability == -INFINITY) return {CtcStatus::kImpossible, INFINITY, true};
  if (needs_gradients) WideBackwardPass<T>(plan);
  return {CtcStatus::kOk, static_cast<float>(softmax.log_scale - log_probability), true};
}

DS2_TARGET CtcResult Run(const CtcPlan& plan) {
  switch (plan.utterance.element_type) {
    case ElementType::kBfloat16:
      return RunTyped<Bfloat16>(plan);
    case ElementType::kFloat16:
      return RunTyped<Float16>(plan);
    default:
      return RunTyped<float>(plan);
  }
}

}  // namespace
}  // namespace DS2_SET
}  // namespace ds2
