// What every instruction set's form of the convolution works on: the geometry of the tiles, the
// tables of the transforms, and the layout of the spectra. Internal to the library.
//
// Method. A strided convolution is a sum of unstrided ones: bins and frames are regrouped by their
// remainders modulo the strides ("phases"), which become channels, so that only wanted outputs are
// computed. Time is cut into tiles whose circular convolution is exact for the first `hop` frames
// (overlap-save); frequency, which is short, is one tile. A tile's spectrum is a transform over
// time, then one over frequency. The channels are mixed by one complex matrix product for each
// point of the spectrum.
//
// The 2 * half real frames of a tile become `half` complex numbers, z[n] = x[n] - i x[n + half],
// which are twisted by exp(-i pi n / (2 half)) and transformed. That evaluates the frames at the
// odd frequencies, where convolution is circular but for a sign of what wraps around (which is
// discarded), and no frequency is special as 0 is in the usual transform of real numbers.

#ifndef DS2_TF_NATIVE_DFT_CONV_PLAN_H_
#define DS2_TF_NATIVE_DFT_CONV_PLAN_H_

#include <cstdint>

#include "ds2_tf/native/instruction_set.h"

namespace ds2 {
namespace dft_conv {

constexpr int kMaxPasses = 12;
constexpr int kMaxHalf = 128;              // complex points of a tile over time
constexpr int kMaxFrequencyPoints = 1024;  // complex points over frequency
constexpr int64_t kGroupLanes = 64;        // floats of neighbouring blocks that one task transforms

// One pass of a Stockham transform: `stride` interleaved transforms of `length` points become
// radix * stride of length / radix.
struct FftPass {
  int radix;
  int length;
  int stride;
  const float* twiddles;  // [length / radix - 1, radix - 1, 2]: the first group's are 1
};

struct Fft {
  int size;
  int num_passes;
  FftPass passes[kMaxPasses];
};

// Output t' of an axis reads phase p of the input at t' + first ... t' + first + taps - 1.
struct Axis {
  int64_t extent;  // outputs
  int64_t kernel;
  int64_t stride;
  int64_t padding;  // (kernel - 1) / 2
  int64_t first;
  int64_t taps;

  int64_t last() const { return first + taps - 1; }
};

struct Geometry {
  Axis time;
  Axis frequency;
  int64_t channels;  // of x
  int64_t filters;
  Fft time_fft;
  Fft frequency_fft;
  const float* twist;  // [half, 2]: cosine and sine of pi n / (2 half)
  int64_t hop;         // frames of a tile's result

  int64_t half() const { return time_fft.size; }
  int64_t num_frames() const { return 2 * half(); }
  int64_t num_points() const { return half() * frequency_fft.size; }
  float scale() const { return 1.0f / static_cast<float>(num_points()); }
};

// Blocks of spectra. Layout: [points, blocks and padding, real and imaginary, width], so that a
// point's matrix lies together.
struct Spectra {
  float* data;
  int64_t point_floats;

  float* at(int64_t point) const { return data + point * point_floats; }
};

// A tile computes frames [start, start + hop) of an utterance, counted after the time stride.
struct Tile {
  int64_t utterance;
  int64_t start;
};

// One tensor [B, time, frequency, channels] as unstrided planes. A block holds the spectra of
// `width` lanes: of as many phases and channels of one tile, or, if a tile has fewer lanes, of
// several tiles, each rounded up to `group` lanes.
struct Planes {
  int64_t time;
  int64_t frequency;
  int64_t channels;
  int64_t stride_time;
  int64_t stride_frequency;
  int64_t lanes;            // channels of all phases
  int64_t group;            // lanes of a tile within a block
  int64_t tiles_per_block;  // > 1 only if blocks_per_tile is 1
  int64_t blocks_per_tile;
  int64_t tasks_per_tile;  // of load_tensor and store_tensor; 1 task a block if tiles share blocks

  int64_t num_tasks(int64_t num_tiles) const {
    return tiles_per_block == 1 ? num_tiles * tasks_per_tile : num_blocks(num_tiles);
  }
  int64_t num_blocks(int64_t num_tiles) const {
    return (num_tiles + tiles_per_block - 1) / tiles_per_block * blocks_per_tile;
  }
};

// How the kernel lies in a spectrum.
struct KernelView {
  // The matrix of a point is [phases and channels of x, filters], or its transpose.
  bool columns_are_filters;
  // The gradient with respect to the input reads the taps in reverse.
  bool reversed;
  int64_t rows;
  int64_t blocks_per_row;  // the columns are padded to whole vectors

  int64_t num_blocks() const { return rows * blocks_per_row; }
};

// One compiled form. Tasks with the same arguments but their number may run at the same time.
struct Functions {
  int64_t width;

  int64_t num_kernel_tasks(const KernelView& view) const {
    return (view.num_blocks() * width + kGroupLanes - 1) / kGroupLanes;
  }

  // Transforms frames [start + first, start + first + count) of tiles; frames outside of the
  // utterance are zero.
  void (*load_tensor)(const Geometry& geometry, const Planes& planes, const float* tensor,
                      const int32_t* lengths, const Tile* tiles, int64_t num_tiles, int64_t task,
                      int64_t first, int64_t count, const Spectra& spectra);

  // Transforms back, destroying the spectra, and stores the first `hop` frames of each tile as far
  // as they lie within the utterance.
  void (*store_tensor)(const Geometry& geometry, const Planes& planes, float* tensor,
                       const int32_t* lengths, const Tile* tiles, int64_t num_tiles, int64_t task,
                       const Spectra& spectra);

  // The same for a kernel. Spectra are scaled such that a transform, a product and a transform back
  // need no further factor.
  void (*load_kernel)(const Geometry& geometry, const KernelView& view, const float* kernel,
                      int64_t task, const Spectra& spectra);
  void (*store_kernel)(const Geometry& geometry, const KernelView& view, float* kernel,
                       int64_t task, const Spectra& spectra);

  // For one point: products [tiles, columns] = inputs [tiles, rows] * conj(matrix [rows, columns]).
  void (*multiply)(const Planes& input_planes, const Planes& product_planes, int64_t num_tiles,
                   const float* inputs, const float* matrix, float* products);

  // For one point: matrix [rows, columns] += conj(inputs [tiles, rows])^T * gradients [tiles,
  // columns], in the order of the tiles.
  void (*accumulate)(const Planes& input_planes, const Planes& gradient_planes, int64_t num_tiles,
                     const float* inputs, const float* gradients, float* matrix);
};

const Functions& FunctionsFor(InstructionSet set);

}  // namespace dft_conv
}  // namespace ds2

#endif  // DS2_TF_NATIVE_DFT_CONV_PLAN_H_
