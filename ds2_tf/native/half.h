// Conversions between float and the two 16-bit floating-point formats, for hosts and GPUs alike.
// Branch-free, so that compilers vectorise loops over them.

#ifndef DS2_TF_NATIVE_HALF_H_
#define DS2_TF_NATIVE_HALF_H_

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define DS2_HOST_DEVICE __host__ __device__
#else
#define DS2_HOST_DEVICE
#endif

namespace ds2 {

// The bits of a 16-bit float, a type of its own so that overloads can tell the formats apart.
struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

DS2_HOST_DEVICE inline float FloatFromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

DS2_HOST_DEVICE inline uint32_t BitsFromFloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

DS2_HOST_DEVICE inline float ToFloat(float value) { return value; }

DS2_HOST_DEVICE inline float ToFloat(Bfloat16 value) {
  return FloatFromBits(static_cast<uint32_t>(value.bits) << 16);
}

DS2_HOST_DEVICE inline float ToFloat(Float16 value) {
  const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fffu) << 13;
  // The exponent's bias grows from 15 to 127; infinity and NaN keep the largest exponent.
  const uint32_t normal = magnitude + (112u << 23) + (magnitude >= (31u << 23) ? 112u << 23 : 0u);
  // A subnormal half is a normal float; the subtraction shifts its leading one into place. (Scaling
  // by a power of two would fail on threads that flush subnormal floats to zero.)
  const float subnormal = FloatFromBits(magnitude + (113u << 23)) - FloatFromBits(113u << 23);
  const uint32_t bits = magnitude < (1u << 23) ? BitsFromFloat(subnormal) : normal;
  return FloatFromBits(bits | static_cast<uint32_t>(value.bits & 0x8000u) << 16);
}

DS2_HOST_DEVICE inline void FromFloat(float value, float* result) { *result = value; }

// Rounds to nearest, ties to even. Gradients are finite, so NaN needs no care.
DS2_HOST_DEVICE inline void FromFloat(float value, Bfloat16* result) {
  const uint32_t bits = BitsFromFloat(value);
  result->bits = static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Rounds to nearest, ties to even. The magnitude must be below 65504, as any gradient's is.
DS2_HOST_DEVICE inline void FromFloat(float value, Float16* result) {
  const uint32_t bits = BitsFromFloat(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Added to 0.5, a magnitude below 2^-14 leaves its rounded subnormal half in the last bits.
  const uint32_t subnormal = BitsFromFloat(FloatFromBits(magnitude) + 0.5f) - BitsFromFloat(0.5f);
  const uint32_t half = magnitude < (113u << 23) ? subnormal : normal;
  result->bits = static_cast<uint16_t>(half | (bits >> 16 & 0x8000u));
}

}  // namespace ds2

#endif  // DS2_TF_NATIVE_HALF_H_
