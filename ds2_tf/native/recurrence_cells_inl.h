// No include guard: see for_each_instruction_set.h.

#include "ds2_tf/native/recurrence_cells.h"
#include "ds2_tf/native/vector_inl.h"

namespace ds2 {
namespace DS2_SET {

constexpr float kClip = 20.0f;

// NaN stays NaN, so that a run that diverges shows it.
DS2_INLINE Vector ClippedRelu(const Vector& x) {
  const Vector positive = x < 0.0f ? Vector{} : x;
  return positive > kClip ? kClip - Vector{} : positive;
}

// `y` where the clipped ReLU has slope 1, which its value tells as well as its argument; else 0.
DS2_INLINE Vector WhereSloped(const Vector& value, const Vector& y) {
  return (value > 0.0f) & (value < kClip) ? y : Vector{};
}

// 1 / (1 + exp(-x)), within 3e-7.
DS2_INLINE Vector Sigmoid(const Vector& x) {
  // exp(-88) is the smallest power that is no subnormal number.
  Vector t = x < -87.0f ? -87.0f - Vector{} : x;
  t = -(t > 87.0f ? 87.0f - Vector{} : t);
  // exp(t) = 2^n exp(r), |r| <= log(2) / 2. Adding and subtracting 1.5 * 2^23 rounds to an integer.
  constexpr float kRound = 12582912.0f;
  const Vector shifted = t * 1.44269504f + kRound;
  const Vector n = shifted - kRound;
  // log(2) in two parts, the first short enough that its product with n is exact.
  const Vector r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector power = r * 1.3888889e-3f + 8.3333333e-3f;
  power = power * r + 4.1666667e-2f;
  power = power * r + 1.6666667e-1f;
  power = power * r + 0.5f;
  power = power * r + 1.0f;
  power = power * r + 1.0f;
  const Integers exponent = (__builtin_convertvector(n, Integers) + 127) << 23;
  Vector scale;
  std::memcpy(&scale, &exponent, sizeof(scale));
  return 1.0f / (1.0f + power * scale);
}

DS2_TARGET static void ClippedReluForward(const CellForward& f) {
  for (int64_t i = 0; i < f.units; i += kLanes) {
    const int64_t left = f.units - i;
    const Vector sum = LoadSome(f.projected + i, left) + LoadSome(f.recurrent + i, left);
    StoreSome(ClippedRelu(sum), f.state + i, left);
  }
}

DS2_TARGET static void ClippedReluBackward(const CellBackward& f) {
  for (int64_t i = 0; i < f.units; i += kLanes) {
    const int64_t left = f.units - i;
    const Vector total = LoadSome(f.by_output + i, left) + LoadSome(f.through_weights + i, left);
    StoreSome(WhereSloped(LoadSome(f.state + i, left), total), f.by_sums + i, left);
  }
}

DS2_TARGET static void GruForward(const CellForward& f) {
  const int64_t units = f.units;
  for (int64_t i = 0; i < units; i += kLanes) {
    const int64_t left = units - i;
    const Vector update =
        Sigmoid(LoadSome(f.projected + i, left) + LoadSome(f.recurrent + i, left));
    const Vector reset =
        Sigmoid(LoadSome(f.projected + units + i, left) + LoadSome(f.recurrent + units + i, left));
    const Vector recurrent = LoadSome(f.recurrent + 2 * units + i, left);
    const Vector candidate =
        ClippedRelu(LoadSome(f.projected + 2 * units + i, left) + reset * recurrent);
    const Vector previous = LoadSome(f.previous + i, left);
    StoreSome(previous + update * (candidate - previous), f.state + i, left);
    if (f.kept != nullptr) {
      StoreSome(update, f.kept + i, left);
      StoreSome(reset, f.kept + units + i, left);
      StoreSome(recurrent, f.kept + 2 * units + i, left);
    }
  }
}

DS2_TARGET static void GruBackward(const CellBackward& f) {
  const int64_t units = f.units;
  for (int64_t i = 0; i < units; i += kLanes) {
    const int64_t left = units - i;
    const Vector update = LoadSome(f.kept + i, left);
    const Vector reset = LoadSome(f.kept + units + i, left);
    const Vector recurrent = LoadSome(f.kept + 2 * units + i, left);
    const Vector candidate =
        ClippedRelu(LoadSome(f.projected + 2 * units + i, left) + reset * recurrent);
    const Vector previous = LoadSome(f.previous + i, left);
    const Vector total = LoadSome(f.by_output + i, left) + LoadSome(f.direct + i, left) +
                         LoadSome(f.through_weights + i, left);
    const Vector by_candidate = WhereSloped(candidate, update * total);
    StoreSome((candidate - previous) * update * (1.0f - update) * total, f.by_sums + i, left);
    StoreSome(by_candidate * recurrent * reset * (1.0f - reset), f.by_sums + units + i, left);
    StoreSome(by_candidate * reset, f.by_sums + 2 * units + i, left);
    StoreSome(by_candidate, f.by_sums + 3 * units + i, left);
    StoreSome((1.0f - update) * total, f.direct + i, left);
  }
}

}  // namespace DS2_SET
}  // namespace ds2
