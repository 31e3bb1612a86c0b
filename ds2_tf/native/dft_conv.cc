#include "ds2_tf/native/dft_conv.h"

#include <algorithm>
#include <vector>

#include "ds2_tf/native/dft_conv_geometry.h"
#include "ds2_tf/native/dft_conv_plan.h"

namespace ds2 {

using dft_conv::Functions;
using dft_conv::Geometry;
using dft_conv::KernelView;
using dft_conv::Planes;
using dft_conv::Spectra;
using dft_conv::Tile;

namespace {

// Tiles whose spectra are in memory at the same time.
constexpr int64_t kMinTilesPerGroup = 8;
constexpr int64_t kMaxTilesPerGroup = 64;

constexpr size_t kAlignment = 64;

// Points that one task takes: neighbours share pages and prefetched lines.
constexpr int64_t kPointsPerTask = 8;

// Hands out pieces of the workspace; counts alone if that is nullptr.
class Allocator {
 public:
  explicit Allocator(void* workspace) : base_(static_cast<char*>(workspace)) {
    const size_t misaligned = reinterpret_cast<uintptr_t>(workspace) % kAlignment;
    if (misaligned != 0) base_ += kAlignment - misaligned;
  }

  template <typename T>
  T* Allocate(int64_t count) {
    T* result = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return result;
  }

  size_t bytes() const { return used_ + kAlignment; }

 private:
  char* base_;
  size_t used_ = 0;
};

// The arrays of one call. Those that it doesn't need are empty.
struct Workspace {
  int32_t* lengths;         // [B], of x
  int32_t* output_lengths;  // [B], of y
  Tile* tiles;
  Spectra kernel;
  Spectra kernel_gradient;
  Spectra outputs;  // of y or its gradient, for a group of tiles
  Spectra inputs;   // of x
  Spectra input_gradients;
};

struct Needs {
  bool kernel;
  bool kernel_gradient;
  bool inputs;
  bool input_gradients;
};

constexpr Needs kForwardNeeds = {true, false, true, false};

Needs GradientsNeeds(bool input_gradient, bool kernel_gradient) {
  return {input_gradient, kernel_gradient, kernel_gradient, input_gradient};
}

}  // namespace

struct DftConv::Plan {
  Plan(const DftConvShape& shape, int num_threads, InstructionSet set);

  int64_t TilesPerGroup(int num_threads) const;
  Workspace Divide(const Needs& needs, void* memory, size_t* bytes = nullptr) const;
  int64_t FindTiles(const int32_t* lengths, const Workspace& workspace) const;
  void ZeroPadding(const Planes& planes, const int32_t* lengths, float* tensor,
                   const Parallel& parallel) const;

  void LoadTensor(const Planes& planes, const float* tensor, const int32_t* lengths,
                  const Tile* tiles, int64_t num_tiles, int64_t first, int64_t count,
                  const Spectra& spectra, const Parallel& parallel) const;
  void StoreTensor(const Planes& planes, float* tensor, const int32_t* lengths, const Tile* tiles,
                   int64_t num_tiles, const Spectra& spectra, const Parallel& parallel) const;
  void LoadKernel(const KernelView& view, const float* kernel, const Spectra& spectra,
                  const Parallel& parallel) const;
  void StoreKernel(const KernelView& view, float* kernel, const Spectra& spectra,
                   const Parallel& parallel) const;

  // Calls function(point) for all points.
  template <typename Function>
  void ForPoints(const Parallel& parallel, const Function& function) const;

  DftConvShape shape;
  const Functions& functions;
  std::vector<float> tables;
  Geometry geometry;
  Planes inputs;
  Planes outputs;
  KernelView forward_view;   // for y
  KernelView backward_view;  // for x's gradient
  KernelView gradient_view;  // for the kernel's gradient
  int64_t max_tiles;
  int64_t tiles_per_group;
};

DftConv::Plan::Plan(const DftConvShape& s, int num_threads, InstructionSet set)
    : shape(s), functions(dft_conv::FunctionsFor(set)) {
  geometry = dft_conv::MakeGeometry(shape, &tables);
  inputs = dft_conv::MakePlanes(shape.time, shape.frequency, shape.channels, shape.stride_time,
                                shape.stride_frequency, functions.width);
  outputs = dft_conv::MakePlanes(shape.OutputTime(), shape.OutputFrequency(), shape.filters, 1, 1,
                                 functions.width);
  forward_view = {true, false, inputs.lanes, outputs.blocks_per_tile};
  backward_view = {false, true, outputs.lanes, inputs.blocks_per_tile};
  gradient_view = {true, true, inputs.lanes, outputs.blocks_per_tile};
  max_tiles = shape.batch * ((shape.OutputTime() + geometry.hop - 1) / geometry.hop);
  tiles_per_group = TilesPerGroup(num_threads);
}

// A point's matrix is read once for a group. Beyond the group whose spectra are as large as the
// matrices little is gained, and they leave the cache.
int64_t DftConv::Plan::TilesPerGroup(int num_threads) const {
  const int64_t blocks = inputs.blocks_per_tile + outputs.blocks_per_tile;
  const int64_t even = forward_view.num_blocks() / blocks;
  const int64_t busy = 2 * num_threads * std::max(inputs.tiles_per_block, outputs.tiles_per_block);
  const int64_t most =
      std::min(std::max({even, busy, kMinTilesPerGroup}), std::max(kMaxTilesPerGroup, busy));
  // Groups of equal size, that begin with a block.
  const int64_t num_groups = (max_tiles + most - 1) / std::max<int64_t>(most, 1);
  const int64_t tiles = (max_tiles + num_groups - 1) / std::max<int64_t>(num_groups, 1);
  const int64_t multiple = std::max(inputs.tiles_per_block, outputs.tiles_per_block);
  return (tiles + multiple - 1) / multiple * multiple;
}

Workspace DftConv::Plan::Divide(const Needs& needs, void* memory, size_t* bytes) const {
  Allocator allocator(memory);
  Workspace workspace = {};
  workspace.lengths = allocator.Allocate<int32_t>(shape.batch);
  workspace.output_lengths = allocator.Allocate<int32_t>(shape.batch);
  workspace.tiles = allocator.Allocate<Tile>(max_tiles);
  const auto allocate = [&](bool needed, int64_t num_blocks) -> Spectra {
    if (!needed) return {nullptr, 0};
    // An odd number of complex vectors, so that a block's points lie in different sets of the
    // cache.
    const int64_t point_floats = (num_blocks | 1) * 2 * functions.width;
    // The vectors of a tile that shares its block reach into the next block: one past the end.
    const int64_t count = geometry.num_points() * point_floats + functions.width;
    return {allocator.Allocate<float>(count), point_floats};
  };
  workspace.kernel =
      allocate(needs.kernel, (needs.input_gradients ? backward_view : forward_view).num_blocks());
  workspace.kernel_gradient = allocate(needs.kernel_gradient, gradient_view.num_blocks());
  workspace.outputs = allocate(true, outputs.num_blocks(tiles_per_group));
  workspace.inputs = allocate(needs.inputs, inputs.num_blocks(tiles_per_group));
  workspace.input_gradients = allocate(needs.input_gradients, inputs.num_blocks(tiles_per_group));
  if (bytes != nullptr) *bytes = allocator.bytes();
  return workspace;
}

// Returns the number of tiles that have frames.
int64_t DftConv::Plan::FindTiles(const int32_t* lengths, const Workspace& workspace) const {
  int64_t num_tiles = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t length = std::clamp<int64_t>(lengths[b], 0, shape.time);
    const int64_t output_length = (length + shape.stride_time - 1) / shape.stride_time;
    workspace.lengths[b] = static_cast<int32_t>(length);
    workspace.output_lengths[b] = static_cast<int32_t>(output_length);
    for (int64_t start = 0; start < output_length; start += geometry.hop) {
      workspace.tiles[num_tiles++] = {b, start};
    }
  }
  return num_tiles;
}

void DftConv::Plan::ZeroPadding(const Planes& planes, const int32_t* lengths, float* tensor,
                                const Parallel& parallel) const {
  const int64_t frame = planes.frequency * planes.channels;
  parallel.run(shape.batch, [&](int64_t b) {
    std::fill(tensor + (b * planes.time + lengths[b]) * frame,
              tensor + (b + 1) * planes.time * frame, 0.0f);
  });
}

void DftConv::Plan::LoadTensor(const Planes& planes, const float* tensor, const int32_t* lengths,
                               const Tile* tiles, int64_t num_tiles, int64_t first, int64_t count,
                               const Spectra& spectra, const Parallel& parallel) const {
  parallel.run(planes.num_tasks(num_tiles), [&](int64_t task) {
    functions.load_tensor(geometry, planes, tensor, lengths, tiles, num_tiles, task, first,
                          count, spectra);
  });
}

void DftConv::Plan::StoreTensor(const Planes& planes, float* tensor, const int32_t* lengths,
                                const Tile* tiles, int64_t num_tiles, const Spectra& spectra,
                                const Parallel& parallel) const {
  parallel.run(planes.num_tasks(num_tiles), [&](int64_t task) {
    functions.store_tensor(geometry, planes, tensor, lengths, tiles, num_tiles, task, spectra);
  });
}

template <typename Function>
void DftConv::Plan::ForPoints(const Parallel& parallel, const Function& function) const {
  const int64_t num_points = geometry.num_points();
  parallel.run((num_points + kPointsPerTask - 1) / kPointsPerTask, [&](int64_t task) {
    const int64_t end = std::min((task + 1) * kPointsPerTask, num_points);
    for (int64_t point = task * kPointsPerTask; point < end; ++point) function(point);
  });
}

void DftConv::Plan::LoadKernel(const KernelView& view, const float* kernel, const Spectra& spectra,
                               const Parallel& parallel) const {
  parallel.run(functions.num_kernel_tasks(view), [&](int64_t task) {
    functions.load_kernel(geometry, view, kernel, task, spectra);
  });
}

void DftConv::Plan::StoreKernel(const KernelView& view, float* kernel, const Spectra& spectra,
                                const Parallel& parallel) const {
  parallel.run(functions.num_kernel_tasks(view), [&](int64_t task) {
    functions.store_kernel(geometry, view, kernel, task, spectra);
  });
}

const char* DftConv::WhyUnsupported(const DftConvShape& shape) {
  return dft_conv::WhyUnsupported(shape);
}

DftConv::DftConv(const DftConvShape& shape, int num_threads, InstructionSet set)
    : plan_(std::make_unique<Plan>(shape, num_threads, set)) {}

DftConv::~DftConv() = default;

size_t DftConv::ForwardWorkspaceBytes() const {
  size_t bytes = 0;
  plan_->Divide(kForwardNeeds, nullptr, &bytes);
  return bytes;
}

size_t DftConv::GradientsWorkspaceBytes(bool input_gradient, bool kernel_gradient) const {
  size_t bytes = 0;
  plan_->Divide(GradientsNeeds(input_gradient, kernel_gradient), nullptr, &bytes);
  return bytes;
}

void DftConv::Forward(const float* x, const int32_t* lengths, const float* kernel, float* y,
                      void* workspace_memory, const Parallel& parallel) const {
  const Plan& plan = *plan_;
  const Functions& functions = plan.functions;
  const Workspace workspace = plan.Divide(kForwardNeeds, workspace_memory);
  const int64_t num_tiles = plan.FindTiles(lengths, workspace);
  plan.ZeroPadding(plan.outputs, workspace.output_lengths, y, parallel);
  if (num_tiles > 0) plan.LoadKernel(plan.forward_view, kernel, workspace.kernel, parallel);
  for (int64_t begin = 0; begin < num_tiles; begin += plan.tiles_per_group) {
    const Tile* tiles = workspace.tiles + begin;
    const int64_t count = std::min(plan.tiles_per_group, num_tiles - begin);
    plan.LoadTensor(plan.inputs, x, workspace.lengths, tiles, count, plan.geometry.time.first,
                    plan.geometry.num_frames(), workspace.inputs, parallel);
    plan.ForPoints(parallel, [&](int64_t point) {
      functions.multiply(plan.inputs, plan.outputs, count, workspace.inputs.at(point),
                         workspace.kernel.at(point), workspace.outputs.at(point));
    });
    plan.StoreTensor(plan.outputs, y, workspace.output_lengths, tiles, count, workspace.outputs,
                     parallel);
  }
}

void DftConv::Gradients(const float* x, const int32_t* lengths, const float* kernel,
                        const float* y_gradient, float* x_gradient, float* kernel_gradient,
                        void* workspace_memory, const Parallel& parallel) const {
  const Plan& plan = *plan_;
  const Functions& functions = plan.functions;
  const Geometry& geometry = plan.geometry;
  const Workspace workspace = plan.Divide(
      GradientsNeeds(x_gradient != nullptr, kernel_gradient != nullptr), workspace_memory);
  const int64_t num_tiles = plan.FindTiles(lengths, workspace);
  if (x_gradient != nullptr) {
    plan.ZeroPadding(plan.inputs, workspace.lengths, x_gradient, parallel);
    if (num_tiles > 0) plan.LoadKernel(plan.backward_view, kernel, workspace.kernel, parallel);
  }
  if (kernel_gradient != nullptr) {
    plan.ForPoints(parallel, [&](int64_t point) {
      const Spectra& spectra = workspace.kernel_gradient;
      std::fill_n(spectra.at(point), spectra.point_floats, 0.0f);
    });
  }
  for (int64_t begin = 0; begin < num_tiles; begin += plan.tiles_per_group) {
    const Tile* tiles = workspace.tiles + begin;
    const int64_t count = std::min(plan.tiles_per_group, num_tiles - begin);
    plan.LoadTensor(plan.outputs, y_gradient, workspace.output_lengths, tiles, count,
                    -geometry.time.last(), geometry.num_frames(), workspace.outputs, parallel);
    if (kernel_gradient != nullptr) {
      plan.LoadTensor(plan.inputs, x, workspace.lengths, tiles, count, 0, geometry.hop,
                      workspace.inputs, parallel);
    }
    plan.ForPoints(parallel, [&](int64_t point) {
      const float* gradients = workspace.outputs.at(point);
      if (x_gradient != nullptr) {
        functions.multiply(plan.outputs, plan.inputs, count, gradients,
                           workspace.kernel.at(point), workspace.input_gradients.at(point));
      }
      if (kernel_gradient != nullptr) {
        functions.accumulate(plan.inputs, plan.outputs, count, workspace.inputs.at(point),
                             gradients, workspace.kernel_gradient.at(point));
      }
    });
    if (x_gradient != nullptr) {
      plan.StoreTensor(plan.inputs, x_gradient, workspace.lengths, tiles, count,
                       workspace.input_gradients, parallel);
    }
  }
  if (kernel_gradient != nullptr) {
    plan.StoreKernel(plan.gradient_view, kernel_gradient, workspace.kernel_gradient, parallel);
  }
}

}  // namespace ds2
