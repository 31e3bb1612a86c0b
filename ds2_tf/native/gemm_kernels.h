// The inner parts of a matrix product, one set of them for each instruction set and precision.

#ifndef DS2_TF_NATIVE_GEMM_KERNELS_H_
#define DS2_TF_NATIVE_GEMM_KERNELS_H_

#include <cstdint>

#include "ds2_tf/native/instruction_set.h"

namespace ds2 {

enum class Precision {
  kFloat32 = 0,
  kBfloat16 = 1,  // factors rounded to bfloat16, sums in float32
};

// A matrix [outer, depth] or, transposed, [depth, outer] in memory; depth is what a product sums
// over.
struct Source {
  const float* data;
  int64_t stride;      // from one row in memory to the next
  bool depth_is_rows;  // whether memory holds [depth, outer]
};

// Packed operands are made of 32-bit words: a float, or two bfloat16 that are neighbours in depth.
struct Kernels {
  InstructionSet instruction_set;
  int rows;             // of the left operand that a kernel treats at once
  int columns;          // of a panel of the right operand
  int values_per_word;  // 1 or 2
  int word_multiple;    // depth is padded with zeros to a multiple of so many words

  // Packs a left operand as [outer][stride] words; `stride` >= Words(depth). Memory must hold a
  // multiple of `rows` rows.
  void (*pack_left)(const Kernels& kernels, const Source& source, int64_t outer, int64_t depth,
                    uint32_t* words, int64_t stride);

  // Packs a right operand as panels [Words(depth)][columns], the last padded with zeros.
  void (*pack_right)(const Kernels& kernels, const Source& source, int64_t outer, int64_t depth,
                     uint32_t* words);

  // c [num_rows, num_columns] = or += left x one panel; `num_columns` <= `columns`.
  void (*multiply)(int64_t num_rows, int64_t num_columns, int64_t num_words, const uint32_t* left,
                   int64_t left_stride, const uint32_t* panel, float* c, int64_t c_stride,
                   bool accumulate);

  // Before and after a thread's calls of `multiply`.
  void (*begin)();
  void (*end)();

  int64_t Words(int64_t depth) const {
    const int64_t multiple = values_per_word * word_multiple;
    return (depth + multiple - 1) / multiple * word_multiple;
  }
  int64_t Panels(int64_t num_columns) const { return (num_columns + columns - 1) / columns; }
  int64_t PaddedRows(int64_t num_rows) const { return (num_rows + rows - 1) / rows * rows; }
};

// Returns the kernels for a precision with the instructions of `set`, which the processor must
// have. Where these have no bfloat16 products, they are computed on rounded floats.
const Kernels& FindKernels(Precision precision, InstructionSet set);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_GEMM_KERNELS_H_
