// A float with an exponent of its own: what the GPU form of CTC computes with.
//
// Probabilities of paths leave the range of float after some frames. Their logarithms stay in it
// but lose the precision: at -1,000 a float steps by 6e-5, which ends as errors of 1e-3 in the
// gradient. Mantissa and exponent apart keep all 24 bits, and an addition takes no exponential.

#ifndef DS2_TF_NATIVE_SCALED_FLOAT_H_
#define DS2_TF_NATIVE_SCALED_FLOAT_H_

#include <cmath>
#include <cstdint>

#include "half.h"

namespace ds2 {

// mantissa * 2^exponent; the mantissa is in [1, 4) or zero.
struct ScaledFloat {
  float mantissa;
  int32_t exponent;
};

// The exponent of zero, below any other. The sum of two still fits.
constexpr int32_t kZeroExponent = -(1 << 30);

DS2_HOST_DEVICE inline ScaledFloat ScaledZero() { return {0.0f, kZeroExponent}; }
DS2_HOST_DEVICE inline ScaledFloat ScaledOne() { return {1.0f, 0}; }

// Returns value * 2^shift for shift <= 0; zero where that is no normal number.
DS2_HOST_DEVICE inline float ShiftDown(float value, int32_t shift) {
  return shift < -126 ? 0.0f : value * FloatFromBits(static_cast<uint32_t>(shift + 127) << 23);
}

DS2_HOST_DEVICE inline ScaledFloat Normalized(float mantissa, int32_t exponent) {
  if (mantissa == 0.0f) return ScaledZero();
  const uint32_t bits = BitsFromFloat(mantissa);
  return {FloatFromBits((bits & 0x007fffffu) | 0x3f800000u),
          exponent + static_cast<int32_t>(bits >> 23) - 127};
}

// The sum of three, which may be unnormalised: it is to be multiplied next.
DS2_HOST_DEVICE inline ScaledFloat Add(ScaledFloat a, ScaledFloat b, ScaledFloat c) {
  int32_t exponent = a.exponent > b.exponent ? a.exponent : b.exponent;
  exponent = c.exponent > exponent ? c.exponent : exponent;
  return {ShiftDown(a.mantissa, a.exponent - exponent) +
              ShiftDown(b.mantissa, b.exponent - exponent) +
              ShiftDown(c.mantissa, c.exponent - exponent),
          exponent};
}

DS2_HOST_DEVICE inline ScaledFloat Multiply(ScaledFloat a, ScaledFloat b) {
  return Normalized(a.mantissa * b.mantissa, a.exponent + b.exponent);
}

// Returns e^(logit - largest) for largest >= logit, to 2e-7 relative; zero if its exponent is
// below lowest_exponent.
DS2_HOST_DEVICE inline ScaledFloat ScaledExp(float logit, float largest, int32_t lowest_exponent) {
  const float difference = logit - largest;
  // What the subtraction rounded away: it would add up over the frames.
  const float subtracted = difference - logit;
  const float rest = (logit - (difference - subtracted)) - (largest + subtracted);
  const float exponent = rintf(difference * 1.44269504f);
  // Also true of -infinity.
  if (!(exponent >= static_cast<float>(lowest_exponent))) return ScaledZero();
  // ln 2 in two parts.
  float r = fmaf(exponent, -0.693147182f, difference);
  r = fmaf(exponent, 1.90465421e-9f, r) + rest;
  // The polynomial of ctc_lanes_inl.h.
  float q = fmaf(r, 0.0013950490706f, 0.0083688894058f);
  q = fmaf(q, r, 0.0416662058082f);
  q = fmaf(q, r, 0.1666651883911f);
  q = fmaf(q, r, 0.5000000095184f);
  const float mantissa = fmaf(q, r * r, r) + 1.0f;
  return Normalized(mantissa, static_cast<int32_t>(exponent));
}

// Returns the same as a plain float, and NaN for NaN, or if both are the same infinity.
DS2_HOST_DEVICE inline float ExpDifference(float logit, float largest) {
  const float difference = logit - largest;
  if (!(difference == difference)) return difference;
  const ScaledFloat result = ScaledExp(logit, largest, -126);
  return ShiftDown(result.mantissa, result.exponent);
}

}  // namespace ds2

#endif  // DS2_TF_NATIVE_SCALED_FLOAT_H_
