// The recurrent cells, one row and frame at a time, for each instruction set. The formulas are
// those of ds2_tf/ops/cells.py.

#ifndef DS2_TF_NATIVE_RECURRENCE_CELLS_H_
#define DS2_TF_NATIVE_RECURRENCE_CELLS_H_

#include <cstdint>

#include "ds2_tf/native/instruction_set.h"

namespace ds2 {

// H is `units`, G is H or 3 H.
struct CellForward {
  int64_t units;
  const float* projected;  // [G]
  const float* recurrent;  // [G], the product of the previous state and U
  const float* previous;   // [H]
  float* state;            // [H]
  float* kept;             // [3 H] for the gradient of the gated unit, or null
};

struct CellBackward {
  int64_t units;
  const float* projected;        // [G]
  const float* previous;         // [H]
  const float* state;            // [H]
  const float* kept;             // [3 H]
  const float* by_output;        // [H], the gradient of this frame's output
  const float* through_weights;  // [H], what reaches the state from the later frame through U
  float* direct;   // [H], what reaches the state from the later frame past U; then the same for
                   // the previous state. Zeros and never written where the cell has no such way
  float* by_sums;  // [G], the gradient of the recurrent product; then, for the gated unit, [H],
                   // that of the projected candidate, which the reset gate doesn't scale
};

struct CellKernels {
  void (*forward)(const CellForward& frame);
  void (*backward)(const CellBackward& frame);
};

// Returns the kernels with the instructions of `set`, which the processor must have.
CellKernels ClippedReluKernels(InstructionSet set);
CellKernels GruKernels(InstructionSet set);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_RECURRENCE_CELLS_H_
