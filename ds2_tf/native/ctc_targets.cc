// Compiles the CTC algorithm once per instruction set.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ctc_plan.h"
#include "half.h"

// Vectors are passed between inlined functions alone: no calling convention is at stake.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace ds2 {
namespace {

constexpr double kLog2 = 0.693147180559945309417;

// Returns a difference of exponents as ldexp takes it.
int WideShift(double exponent) { return static_cast<int>(std::max(exponent, -1100.0)); }

}  // namespace
}  // namespace ds2

#define DS2_KERNELS "ctc_algorithm_inl.h"
#include "for_each_instruction_set.h"

namespace ds2 {

CtcFunction CtcFunctionFor([[maybe_unused]] InstructionSet instruction_set) {
#if defined(__x86_64__)
  if (instruction_set >= InstructionSet::kAvx512) return avx512::Run;
  if (instruction_set >= InstructionSet::kAvx2) return avx2::Run;
#endif
  return generic::Run;
}

}  // namespace ds2
