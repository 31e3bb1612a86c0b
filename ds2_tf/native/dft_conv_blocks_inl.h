// The spectra of blocks: tensors and kernels to points and back. No include guard.

namespace ds2 {
namespace DS2_SET {
namespace {

using dft_conv::Axis;
using dft_conv::Geometry;
using dft_conv::KernelView;
using dft_conv::kMaxFrequencyPoints;
using dft_conv::kMaxHalf;
using dft_conv::Planes;
using dft_conv::Spectra;
using dft_conv::Tile;

// Neighbouring blocks that one task transforms together: their values share cache lines and pages
// in the tensor and in the spectra.
struct Group {
  float* data;
  int64_t num_blocks;
  int64_t point_floats;
  int64_t row_points;
};

constexpr int64_t kGroupLanes = dft_conv::kGroupLanes;
constexpr int64_t kFramesSize = 2 * kMaxHalf * kGroupLanes;

DS2_INLINE Group GroupOf(const Geometry& geometry, const Spectra& spectra, int64_t first_block,
                         int64_t num_blocks) {
  return {spectra.data + first_block * 2 * kLanes, num_blocks, spectra.point_floats,
          geometry.frequency_fft.size};
}

template <bool kSwapped>
DS2_INLINE Points<kSwapped> RowOf(const Group& group, int64_t block, int64_t k) {
  return {group.data + k * group.row_points * group.point_floats + block * 2 * kLanes,
          group.point_floats};
}

template <bool kSwapped>
DS2_INLINE Points<kSwapped> ColumnOf(const Group& group, int64_t block, int64_t f) {
  return {group.data + f * group.point_floats + block * 2 * kLanes,
          group.row_points * group.point_floats};
}

// Transforms frames [2 * half, kGroupLanes], of which those from `num_frames` on are zero, into
// column f.
DS2_TARGET void TransformColumn(const Geometry& geometry, const float* frames, int64_t num_frames,
                                int64_t f, const Group& group) {
  float scratch[4 * kMaxHalf * kLanes];
  for (int64_t i = 0; i < group.num_blocks; ++i) {
    const Frames<const float> block_frames = {frames + i * kLanes, num_frames, geometry.half(),
                                              geometry.twist};
    RunFft<false>(geometry.time_fft, block_frames, ColumnOf<false>(group, i, f), scratch);
  }
}

// The inverse; the frames from `num_frames` on aren't wanted.
DS2_TARGET void RestoreColumn(const Geometry& geometry, const Group& group, int64_t f,
                              int64_t num_frames, float* frames) {
  float scratch[4 * kMaxHalf * kLanes];
  for (int64_t i = 0; i < group.num_blocks; ++i) {
    const Frames<float> block_frames = {frames + i * kLanes, num_frames, geometry.half(),
                                        geometry.twist};
    RunFft<true>(geometry.time_fft, ColumnOf<true>(group, i, f), block_frames, scratch);
  }
}

// Transforms all rows, of which the columns from `num_columns` on are zero.
DS2_TARGET void TransformRows(const Geometry& geometry, int64_t num_columns, const Group& group) {
  float scratch[4 * kMaxFrequencyPoints * kLanes];
  for (int64_t k = 0; k < geometry.half(); ++k) {
    for (int64_t i = 0; i < group.num_blocks; ++i) {
      const Points<false> row = RowOf<false>(group, i, k);
      RunFft<false>(geometry.frequency_fft, Head<false>{row, num_columns}, row, scratch);
    }
  }
}

// The inverse; the columns from `num_columns` on aren't wanted.
DS2_TARGET void RestoreRows(const Geometry& geometry, int64_t num_columns, const Group& group) {
  float scratch[4 * kMaxFrequencyPoints * kLanes];
  for (int64_t k = 0; k < geometry.half(); ++k) {
    for (int64_t i = 0; i < group.num_blocks; ++i) {
      const Points<true> row = RowOf<true>(group, i, k);
      RunFft<true>(geometry.frequency_fft, row, Head<true>{row, num_columns}, scratch);
    }
  }
}

// A contiguous piece of channels of one tile, and the lanes of a group that hold it.
struct Run {
  int64_t lane;
  int64_t num_lanes;
  int64_t channel;    // the first, counted with the phases of frequency
  int64_t offset;     // of frame 0 of the column and bin 0 in the tensor
  int64_t first_row;  // the frames that exist, counted in the column
  int64_t last_row;   // exclusive
};

// What of a tensor one task transforms.
struct Share {
  int64_t first_block;
  int64_t num_blocks;
  int64_t column_step;  // floats in the tensor
  int64_t frame_step;
  int64_t num_columns;
  int num_runs;
  Run runs[kGroupLanes];
};

DS2_INLINE int64_t Clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// Adds the runs of lanes [low, high) of a tile, frames [first, first + count) from its start.
DS2_INLINE void AddRuns(const Planes& planes, const Tile& tile, int64_t length, int64_t first,
                        int64_t count, int64_t low, int64_t high, int64_t first_lane,
                        Share* share) {
  const int64_t start = tile.start + first;
  for (int64_t lane = low; lane < high;) {
    const int64_t phase = lane / share->column_step;
    Run& run = share->runs[share->num_runs++];
    run.lane = first_lane + lane - low;
    run.channel = lane % share->column_step;
    run.num_lanes = Clamp(share->column_step - run.channel, 0, high - lane);
    run.offset = ((tile.utterance * planes.time + start * planes.stride_time + phase) *
                  planes.frequency * planes.channels) +
                 run.channel;
    const int64_t end = (length - phase + planes.stride_time - 1) / planes.stride_time;
    run.first_row = Clamp(-start, 0, count);
    run.last_row = length > phase ? Clamp(end - start, 0, count) : 0;
    lane += run.num_lanes;
  }
}

DS2_INLINE Share FindShare(const Planes& planes, const int32_t* lengths, const Tile* tiles,
                           int64_t num_tiles, int64_t task, int64_t first, int64_t count) {
  Share share;
  share.num_runs = 0;
  share.column_step = planes.stride_frequency * planes.channels;
  share.frame_step = planes.stride_time * planes.frequency * planes.channels;
  share.num_columns =
      (planes.frequency + planes.stride_frequency - 1) / planes.stride_frequency;
  if (planes.tiles_per_block == 1) {
    const Tile& tile = tiles[task / planes.tasks_per_tile];
    const int64_t low = task % planes.tasks_per_tile * kGroupLanes;
    const int64_t high = Clamp(planes.lanes, low, low + kGroupLanes);
    share.first_block = task / planes.tasks_per_tile * planes.blocks_per_tile + low / kLanes;
    share.num_blocks = (high - low + kLanes - 1) / kLanes;
    AddRuns(planes, tile, lengths[tile.utterance], first, count, low, high, 0, &share);
    return share;
  }
  share.first_block = task;
  share.num_blocks = 1;
  for (int64_t i = 0; i < planes.tiles_per_block; ++i) {
    const int64_t index = task * planes.tiles_per_block + i;
    if (index >= num_tiles) break;
    AddRuns(planes, tiles[index], lengths[tiles[index].utterance], first, count, 0, planes.lanes,
            i * planes.group, &share);
  }
  return share;
}

// Returns how many of the run's channels exist in column f: in the last one some phases may lie
// past the last bin.
DS2_INLINE int64_t NumLanes(const Planes& planes, const Share& share, const Run& run, int64_t f) {
  const int64_t first = f * share.column_step + run.channel;
  return Clamp(planes.frequency * planes.channels - first, 0, run.num_lanes);
}

// Copies without a call what may be few values.
DS2_INLINE void CopyLanes(const float* from, int64_t count, float* to) {
  for (; count >= kLanes; count -= kLanes, from += kLanes, to += kLanes) Store(Load(from), to);
  for (; count >= 4; count -= 4, from += 4, to += 4) std::memcpy(to, from, 4 * sizeof(float));
  if (count & 2) {
    std::memcpy(to, from, 2 * sizeof(float));
    from += 2;
    to += 2;
  }
  if (count & 1) *to = *from;
}

DS2_TARGET void LoadTensor(const Geometry& geometry, const Planes& planes, const float* tensor,
                           const int32_t* lengths, const Tile* tiles, int64_t num_tiles,
                           int64_t task, int64_t first, int64_t count, const Spectra& spectra) {
  const Share share = FindShare(planes, lengths, tiles, num_tiles, task, first, count);
  const Group group = GroupOf(geometry, spectra, share.first_block, share.num_blocks);
  float frames[kFramesSize];
  std::memset(frames, 0, geometry.num_frames() * kGroupLanes * sizeof(float));
  for (int64_t f = 0; f < share.num_columns; ++f) {
    for (int r = 0; r < share.num_runs; ++r) {
      const Run& run = share.runs[r];
      const int64_t num_lanes = NumLanes(planes, share, run, f);
      const float* source = tensor + run.offset + f * share.column_step;
      for (int64_t n = run.first_row; n < run.last_row; ++n) {
        float* target = frames + n * kGroupLanes + run.lane;
        CopyLanes(source + n * share.frame_step, num_lanes, target);
        for (int64_t i = num_lanes; i < run.num_lanes; ++i) target[i] = 0.0f;
      }
    }
    TransformColumn(geometry, frames, geometry.num_frames(), f, group);
  }
  TransformRows(geometry, share.num_columns, group);
}

DS2_TARGET void StoreTensor(const Geometry& geometry, const Planes& planes, float* tensor,
                            const int32_t* lengths, const Tile* tiles, int64_t num_tiles,
                            int64_t task, const Spectra& spectra) {
  const Share share = FindShare(planes, lengths, tiles, num_tiles, task, 0, geometry.hop);
  const Group group = GroupOf(geometry, spectra, share.first_block, share.num_blocks);
  RestoreRows(geometry, share.num_columns, group);
  float frames[kFramesSize];
  for (int64_t f = 0; f < share.num_columns; ++f) {
    RestoreColumn(geometry, group, f, geometry.hop, frames);
    for (int r = 0; r < share.num_runs; ++r) {
      const Run& run = share.runs[r];
      const int64_t num_lanes = NumLanes(planes, share, run, f);
      float* target = tensor + run.offset + f * share.column_step;
      for (int64_t n = run.first_row; n < run.last_row; ++n) {
        CopyLanes(frames + n * kGroupLanes + run.lane, num_lanes, target + n * share.frame_step);
      }
    }
  }
}

// Where the taps of one lane of a kernel's group lie.
struct KernelLane {
  bool exists;
  int64_t phase_time;
  int64_t phase_frequency;
  int64_t offset;  // of tap 0 in the kernel
};

struct KernelShare {
  Group group;
  KernelLane lanes[kGroupLanes];
};

DS2_INLINE KernelShare FindKernelShare(const Geometry& geometry, const KernelView& view,
                                       int64_t task, const Spectra& spectra) {
  constexpr int64_t kBlocks = kGroupLanes / kLanes;
  const int64_t inputs = geometry.time.stride * geometry.frequency.stride * geometry.channels;
  KernelShare share;
  share.group = GroupOf(geometry, spectra, task * kBlocks,
                        Clamp(view.num_blocks() - task * kBlocks, 0, kBlocks));
  for (int64_t i = 0; i < kGroupLanes; ++i) {
    KernelLane& lane = share.lanes[i];
    const int64_t block = task * kBlocks + i / kLanes;
    const int64_t row = block / view.blocks_per_row;
    const int64_t column = block % view.blocks_per_row * kLanes + i % kLanes;
    const int64_t input = view.columns_are_filters ? row : column;
    const int64_t filter = view.columns_are_filters ? column : row;
    const int64_t phase = input / geometry.channels;
    lane.exists = input < inputs && filter < geometry.filters;
    lane.phase_time = phase / geometry.frequency.stride;
    lane.phase_frequency = phase % geometry.frequency.stride;
    lane.offset = input % geometry.channels * geometry.filters + filter;
  }
  return share;
}

// Returns where tap (j, jf) of a lane lies in the kernel, or -1 if it isn't one of its taps.
DS2_INLINE int64_t KernelOffset(const Geometry& geometry, const KernelLane& lane, int64_t j,
                            int64_t jf) {
  const Axis& time = geometry.time;
  const Axis& frequency = geometry.frequency;
  const int64_t kt = time.stride * j + lane.phase_time + time.padding;
  const int64_t kf = frequency.stride * jf + lane.phase_frequency + frequency.padding;
  const bool exists =
      lane.exists && kt >= 0 && kt < time.kernel && kf >= 0 && kf < frequency.kernel;
  return exists ? (kt * frequency.kernel + kf) * geometry.channels * geometry.filters + lane.offset
                : -1;
}

DS2_INLINE int64_t KernelColumn(const Geometry& geometry, const KernelView& view, int64_t jf) {
  const int64_t size = geometry.frequency_fft.size;
  return ((view.reversed ? -jf : jf) + size) % size;
}

DS2_INLINE int64_t KernelTap(const Geometry& geometry, const KernelView& view, int64_t row) {
  return view.reversed ? geometry.time.last() - row : geometry.time.first + row;
}

DS2_TARGET void LoadKernel(const Geometry& geometry, const KernelView& view, const float* kernel,
                           int64_t task, const Spectra& spectra) {
  const KernelShare share = FindKernelShare(geometry, view, task, spectra);
  const int64_t num_columns = geometry.frequency_fft.size;
  for (int64_t point = 0; point < geometry.num_points(); ++point) {
    std::memset(share.group.data + point * share.group.point_floats, 0,
                share.group.num_blocks * 2 * kLanes * sizeof(float));
  }
  const float scale = geometry.scale();
  float frames[kFramesSize];
  for (int64_t jf = geometry.frequency.first; jf <= geometry.frequency.last(); ++jf) {
    for (int64_t n = 0; n < geometry.time.taps; ++n) {
      const int64_t j = KernelTap(geometry, view, n);
      for (int64_t i = 0; i < kGroupLanes; ++i) {
        const int64_t offset = KernelOffset(geometry, share.lanes[i], j, jf);
        frames[n * kGroupLanes + i] = offset >= 0 ? scale * kernel[offset] : 0.0f;
      }
    }
    TransformColumn(geometry, frames, geometry.time.taps, KernelColumn(geometry, view, jf),
                    share.group);
  }
  TransformRows(geometry, num_columns, share.group);
}

DS2_TARGET void StoreKernel(const Geometry& geometry, const KernelView& view, float* kernel,
                            int64_t task, const Spectra& spectra) {
  const KernelShare share = FindKernelShare(geometry, view, task, spectra);
  RestoreRows(geometry, geometry.frequency_fft.size, share.group);
  const float scale = geometry.scale();
  float frames[kFramesSize];
  for (int64_t jf = geometry.frequency.first; jf <= geometry.frequency.last(); ++jf) {
    RestoreColumn(geometry, share.group, KernelColumn(geometry, view, jf), geometry.time.taps,
                  frames);
    for (int64_t n = 0; n < geometry.time.taps; ++n) {
      const int64_t j = KernelTap(geometry, view, n);
      for (int64_t i = 0; i < kGroupLanes; ++i) {
        const int64_t offset = KernelOffset(geometry, share.lanes[i], j, jf);
        if (offset >= 0) kernel[offset] = scale * frames[n * kGroupLanes + i];
      }
    }
  }
}

}  // namespace
}  // namespace DS2_SET
}  // namespace ds2
