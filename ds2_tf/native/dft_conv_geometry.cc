#include "ds2_tf/native/dft_conv_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ds2 {
namespace dft_conv {
namespace {

constexpr double kPi = 3.14159265358979323846;

int64_t FloorDivide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

Axis MakeAxis(int64_t extent, int64_t kernel, int64_t stride) {
  Axis axis;
  axis.extent = extent;
  axis.kernel = kernel;
  axis.stride = stride;
  axis.padding = (kernel - 1) / 2;
  axis.first = FloorDivide(-axis.padding, stride);
  axis.taps = FloorDivide(kernel - 1 - axis.padding, stride) - axis.first + 1;
  return axis;
}

// Returns the least number of points in which what wraps around reaches no wanted bin.
int64_t LeastFrequencyPoints(const Axis& axis) {
  return std::max<int64_t>(axis.extent + std::max(axis.last(), -axis.first), axis.taps);
}

// Returns the least size of factors 2 and 3 that is not below `least`.
int64_t FastSize(int64_t least) {
  for (int64_t size = least;; ++size) {
    int64_t rest = size;
    while (rest % 2 == 0) rest /= 2;
    while (rest % 3 == 0) rest /= 3;
    if (rest == 1) return size;
  }
}

// Returns the half of the tile's frames that makes the least work, 0 if no tile is long enough.
int64_t ChooseHalf(const DftConvShape& shape, const Axis& time, int64_t frequency_points) {
  const double inputs =
      static_cast<double>(shape.stride_time * shape.stride_frequency * shape.channels);
  const double filters = static_cast<double>(shape.filters);
  int64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t half = 1; half <= kMaxHalf; half *= 2) {
    const int64_t hop = 2 * half - time.taps + 1;
    if (hop < 1) continue;
    const double tiles = static_cast<double>(shape.batch * ((time.extent + hop - 1) / hop));
    const double points = static_cast<double>(half * frequency_points);
    // Of one complex number, counted in products.
    const double transform = std::log2(2.0 * points);
    const double cost = points * (tiles * (inputs * filters + transform * (inputs + filters)) +
                                  transform * inputs * filters);
    if (cost < least) {
      least = cost;
      best = half;
    }
  }
  return best;
}

// Returns the factor of the next pass: few passes, and none of a factor 2 if there is another way.
int Radix(int length) {
  if (length % 2 != 0) return 3;
  const int power = length & -length;
  return power == 2 ? 2 : power == 4 || power == 16 ? 4 : 8;
}

Fft MakeFft(int64_t size, std::vector<float>* tables, std::vector<size_t>* offsets) {
  Fft fft = {};
  fft.size = static_cast<int>(size);
  int length = fft.size;
  int stride = 1;
  while (length > 1) {
    const int radix = Radix(length);
    fft.passes[fft.num_passes++] = {radix, length, stride, nullptr};
    offsets->push_back(tables->size());
    // Those of p = 0 are 1.
    for (int p = 1; p < length / radix; ++p) {
      for (int k = 1; k < radix; ++k) {
        const double angle = -2.0 * kPi * p * k / length;
        tables->push_back(static_cast<float>(std::cos(angle)));
        tables->push_back(static_cast<float>(std::sin(angle)));
      }
    }
    length /= radix;
    stride *= radix;
  }
  return fft;
}

}  // namespace

const char* WhyUnsupported(const DftConvShape& shape) {
  if (shape.batch < 0 || shape.time < 0 || shape.frequency < 1 || shape.channels < 1 ||
      shape.filters < 1) {
    return "the tensors must have bins, channels and filters";
  }
  if (shape.kernel_time < 1 || shape.kernel_time % 2 == 0 || shape.kernel_frequency < 1 ||
      shape.kernel_frequency % 2 == 0) {
    return "kernel sizes must be odd and >= 1";
  }
  if (shape.stride_time < 1 || shape.stride_frequency < 1) return "strides must be >= 1";
  const Axis time = MakeAxis(shape.OutputTime(), shape.kernel_time, shape.stride_time);
  const Axis frequency =
      MakeAxis(shape.OutputFrequency(), shape.kernel_frequency, shape.stride_frequency);
  if (time.taps > 2 * kMaxHalf) return "the kernel is too long in time";
  if (FastSize(LeastFrequencyPoints(frequency)) > kMaxFrequencyPoints) {
    return "there are too many bins";
  }
  return nullptr;
}

Geometry MakeGeometry(const DftConvShape& shape, std::vector<float>* tables) {
  Geometry geometry = {};
  geometry.time = MakeAxis(shape.OutputTime(), shape.kernel_time, shape.stride_time);
  geometry.frequency =
      MakeAxis(shape.OutputFrequency(), shape.kernel_frequency, shape.stride_frequency);
  geometry.channels = shape.channels;
  geometry.filters = shape.filters;
  const int64_t frequency_points = FastSize(LeastFrequencyPoints(geometry.frequency));
  const int64_t half = ChooseHalf(shape, geometry.time, frequency_points);
  geometry.hop = 2 * half - geometry.time.taps + 1;

  // The tables may move while they grow: pointers come last.
  std::vector<size_t> offsets;
  geometry.time_fft = MakeFft(half, tables, &offsets);
  geometry.frequency_fft = MakeFft(frequency_points, tables, &offsets);
  const size_t twist = tables->size();
  for (int64_t n = 0; n < half; ++n) {
    const double angle = kPi * static_cast<double>(n) / static_cast<double>(2 * half);
    tables->push_back(static_cast<float>(std::cos(angle)));
    tables->push_back(static_cast<float>(std::sin(angle)));
  }
  size_t next = 0;
  for (Fft* fft : {&geometry.time_fft, &geometry.frequency_fft}) {
    for (int i = 0; i < fft->num_passes; ++i) {
      fft->passes[i].twiddles = tables->data() + offsets[next++];
    }
  }
  geometry.twist = tables->data() + twist;
  return geometry;
}

Planes MakePlanes(int64_t time, int64_t frequency, int64_t channels, int64_t stride_time,
                  int64_t stride_frequency, int64_t width) {
  Planes planes = {};
  planes.time = time;
  planes.frequency = frequency;
  planes.channels = channels;
  planes.stride_time = stride_time;
  planes.stride_frequency = stride_frequency;
  planes.lanes = stride_time * stride_frequency * channels;
  planes.group = 1;
  while (planes.group < std::min(planes.lanes, width)) planes.group *= 2;
  planes.tiles_per_block = width / planes.group;
  planes.blocks_per_tile = (planes.lanes + width - 1) / width;
  planes.tasks_per_tile = (planes.lanes + kGroupLanes - 1) / kGroupLanes;
  return planes;
}

}  // namespace dft_conv
}  // namespace ds2
