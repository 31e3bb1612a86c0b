#include "ds2_tf/native/gemm.h"

#include <algorithm>
#include <atomic>

namespace ds2 {
namespace {

// The packed left block and a panel group of the right one stay in a core's second-level cache, a
// kernel's rows of the left one in the first-level cache while they meet all panels.
constexpr int64_t kBlockRows = 512;
constexpr int64_t kGroupPanels = 4;
constexpr int64_t kBlockWords = 256;

// Rows at a power of two from each other would share a few sets of the cache.
constexpr int64_t kLeftStride = kBlockWords + 16;
constexpr int64_t kLeftWords = kBlockRows * kLeftStride;

int64_t GroupColumns(const Kernels& kernels) { return kGroupPanels * kernels.columns; }

size_t SlotWords(const Kernels& kernels) {
  return kLeftWords + GroupColumns(kernels) * kBlockWords;
}

// One task: some rows of c and some panel groups.
struct Block {
  const Product* product;
  int64_t row;
  int64_t num_rows;
  int64_t column;
  int64_t num_columns;
};

std::vector<Block> CutIntoBlocks(const Kernels& kernels, const std::vector<Product>& products,
                                 int64_t most_groups) {
  std::vector<Block> blocks;
  const int64_t width = most_groups * GroupColumns(kernels);
  for (const Product& product : products) {
    for (int64_t column = 0; column < product.columns; column += width) {
      for (int64_t row = 0; row < product.rows; row += kBlockRows) {
        blocks.push_back({&product, row, std::min(kBlockRows, product.rows - row), column,
                          std::min(width, product.columns - column)});
      }
    }
  }
  return blocks;
}

// Cuts as coarsely as the number of threads allows: each block packs its left rows anew.
std::vector<Block> CutForThreads(const Kernels& kernels, const std::vector<Product>& products,
                                 int num_threads) {
  int64_t groups = 1;
  for (const Product& product : products) {
    groups = std::max(groups, (product.columns - 1) / GroupColumns(kernels) + 1);
  }
  std::vector<Block> blocks = CutIntoBlocks(kernels, products, groups);
  while (num_threads > 1 && groups > 1 && blocks.size() < 2 * static_cast<size_t>(num_threads)) {
    groups = (groups + 1) / 2;
    blocks = CutIntoBlocks(kernels, products, groups);
  }
  return blocks;
}

// Adds to one panel group what a stretch of depth contributes.
void MultiplyGroup(const Kernels& kernels, int64_t num_rows, int64_t num_columns, int64_t words,
                   const uint32_t* left, const uint32_t* right, float* c, int64_t c_stride,
                   bool accumulate) {
  for (int64_t i = 0; i < num_rows; i += kernels.rows) {
    for (int64_t j = 0; j < num_columns; j += kernels.columns) {
      kernels.multiply(std::min<int64_t>(kernels.rows, num_rows - i),
                       std::min<int64_t>(kernels.columns, num_columns - j), words,
                       left + i * kLeftStride, kLeftStride, right + j * words, c + i * c_stride + j,
                       c_stride, accumulate);
    }
  }
}

void MultiplyBlock(const Kernels& kernels, const Block& block, uint32_t* workspace) {
  const Product& p = *block.product;
  uint32_t* left = workspace;
  uint32_t* right = workspace + kLeftWords;
  float* c = p.c + block.row * p.c_stride + block.column;
  if (p.depth == 0 && !p.accumulate) {
    for (int64_t i = 0; i < block.num_rows; ++i) {
      std::fill_n(c + i * p.c_stride, block.num_columns, 0.0f);
    }
  }
  const int64_t block_depth = kBlockWords * kernels.values_per_word;
  for (int64_t k = 0; k < p.depth; k += block_depth) {
    const int64_t depth = std::min(block_depth, p.depth - k);
    const float* a =
        p.a + (p.a_transposed ? k * p.a_stride + block.row : block.row * p.a_stride + k);
    kernels.pack_left(kernels, {a, p.a_stride, p.a_transposed}, block.num_rows, depth, left,
                      kLeftStride);
    for (int64_t j = 0; j < block.num_columns; j += GroupColumns(kernels)) {
      const int64_t num_columns = std::min(GroupColumns(kernels), block.num_columns - j);
      const int64_t column = block.column + j;
      const float* b = p.b + (p.b_transposed ? column * p.b_stride + k : k * p.b_stride + column);
      kernels.pack_right(kernels, {b, p.b_stride, !p.b_transposed}, num_columns, depth, right);
      MultiplyGroup(kernels, block.num_rows, num_columns, kernels.Words(depth), left, right, c + j,
                    p.c_stride, p.accumulate || k > 0);
    }
  }
}

}  // namespace

size_t MultiplyWorkspaceBytes(const Kernels& kernels, int num_threads) {
  return SlotWords(kernels) * sizeof(uint32_t) * std::max(1, num_threads);
}

void Multiply(const Kernels& kernels, const std::vector<Product>& products, void* workspace,
              const Parallel& parallel) {
  const std::vector<Block> blocks = CutForThreads(kernels, products, parallel.num_threads);
  const int64_t num_blocks = blocks.size();
  // Each worker has its part of the workspace and takes blocks as long as there are any: another
  // program on a core then delays a few blocks only.
  std::atomic<int64_t> next{0};
  const int64_t num_workers = std::min<int64_t>(std::max(1, parallel.num_threads), num_blocks);
  parallel.run(num_workers, [&](int64_t worker) {
    kernels.begin();
    uint32_t* slot = static_cast<uint32_t*>(workspace) + worker * SlotWords(kernels);
    for (int64_t i; (i = next++) < num_blocks;) MultiplyBlock(kernels, blocks[i], slot);
    kernels.end();
  });
}

}  // namespace ds2
