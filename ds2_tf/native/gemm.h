// Matrix products in float32, or with factors rounded to bfloat16.

#ifndef DS2_TF_NATIVE_GEMM_H_
#define DS2_TF_NATIVE_GEMM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ds2_tf/native/gemm_kernels.h"
#include "ds2_tf/native/parallel.h"

namespace ds2 {

// c [rows, columns] = or += a [rows, depth] b [depth, columns].
struct Product {
  int64_t rows;
  int64_t columns;
  int64_t depth;
  const float* a;
  int64_t a_stride;
  bool a_transposed;  // memory holds a as [depth, rows]
  const float* b;
  int64_t b_stride;
  bool b_transposed;  // memory holds b as [columns, depth]
  float* c;
  int64_t c_stride;
  bool accumulate;
};

// Bytes of workspace, to be aligned to 64, that `Multiply` takes with so many threads.
size_t MultiplyWorkspaceBytes(const Kernels& kernels, int num_threads);

// Computes products that don't depend on each other. Every element is summed by one task in a fixed
// order, so that the result doesn't depend on the threads.
void Multiply(const Kernels& kernels, const std::vector<Product>& products, void* workspace,
              const Parallel& parallel);

}  // namespace ds2

#endif  // DS2_TF_NATIVE_GEMM_H_
