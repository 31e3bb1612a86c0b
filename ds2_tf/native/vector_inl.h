// Vectors of DS2_LANES floats for the kernels that for_each_instruction_set.h compiles several
// times. No include guard.

#include <cstdint>
#include <cstring>

#define DS2_INLINE static inline __attribute__((always_inline)) DS2_TARGET

namespace ds2 {
namespace DS2_SET {

constexpr int kLanes = DS2_LANES;
using Vector __attribute__((vector_size(4 * DS2_LANES))) = float;
using Integers __attribute__((vector_size(4 * DS2_LANES))) = int32_t;

DS2_INLINE Vector Load(const float* from) {
  Vector x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}

DS2_INLINE void Store(const Vector& x, void* to) { std::memcpy(to, &x, sizeof(x)); }

// The first `count` lanes, the others 0; all if `count` exceeds their number, none if it is
// negative.
DS2_INLINE Vector LoadSome(const float* from, int64_t count) {
  if (count >= kLanes) return Load(from);
  Vector x = {};
  if (count > 0) std::memcpy(&x, from, count * sizeof(float));
  return x;
}

DS2_INLINE void StoreSome(const Vector& x, void* to, int64_t count) {
  if (count >= kLanes) return Store(x, to);
  if (count > 0) std::memcpy(to, &x, count * sizeof(float));
}

// Rounds to the nearest bfloat16, ties to even; NaN stays NaN.
DS2_INLINE Vector RoundToBfloat16(const Vector& x) {
  Integers bits;
  std::memcpy(&bits, &x, sizeof(x));
  Integers rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & static_cast<int32_t>(0xffff0000);
  // The carry could turn a NaN into an infinity.
  rounded = x == x ? rounded : bits | 0x00400000;
  Vector y;
  std::memcpy(&y, &rounded, sizeof(y));
  return y;
}

}  // namespace DS2_SET
}  // namespace ds2
