// Vectors of doubles and floats with their few operations. Included once per instruction set, in
// that set's namespace (see for_each_instruction_set.h): hence no include guard. GCC's vector
// types, not intrinsics: one text for every processor.

constexpr int kFloatLanes = DS2_LANES;
constexpr int kDoubleLanes = DS2_LANES / 2;

typedef double Doubles __attribute__((vector_size(8 * kDoubleLanes)));
typedef int64_t Longs __attribute__((vector_size(8 * kDoubleLanes)));
typedef float Floats __attribute__((vector_size(8 * kDoubleLanes)));
typedef int32_t Ints __attribute__((vector_size(8 * kDoubleLanes)));

#undef DS2_INLINE
#define DS2_INLINE DS2_TARGET inline __attribute__((always_inline))

DS2_INLINE Doubles Load(const double* from) {
  Doubles vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

DS2_INLINE Floats Load(const float* from) {
  Floats vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

DS2_INLINE void Store(Doubles vector, double* to) { __builtin_memcpy(to, &vector, sizeof vector); }
DS2_INLINE void Store(Floats vector, float* to) { __builtin_memcpy(to, &vector, sizeof vector); }

DS2_INLINE Doubles Broadcast(double value) { return Doubles{} + value; }
DS2_INLINE Floats Broadcast(float value) { return Floats{} + value; }

// The right-hand side where the comparison with a NaN fails.
DS2_INLINE Doubles Max(Doubles a, Doubles b) { return a > b ? a : b; }
DS2_INLINE Floats Max(Floats a, Floats b) { return a > b ? a : b; }

DS2_INLINE double MaxOfLanes(Doubles vector) {
  double result = vector[0];
  for (int i = 1; i < kDoubleLanes; ++i) result = vector[i] > result ? vector[i] : result;
  return result;
}

DS2_INLINE double SumOfLanes(Doubles vector) {
  double parts[kDoubleLanes];
  Store(vector, parts);
  for (int half = kDoubleLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

DS2_INLINE float MaxOfLanes(Floats vector) {
  float parts[kFloatLanes];
  Store(vector, parts);
  for (int half = kFloatLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      parts[i] = parts[i] > parts[i + half] ? parts[i] : parts[i + half];
    }
  }
  return parts[0];
}

DS2_INLINE float SumOfLanes(Floats vector) {
  float parts[kFloatLanes];
  Store(vector, parts);
  for (int half = kFloatLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

// Returns e^x for x <= 0 to 2e-7 relative; 0 below -87 (no subnormal results); NaN for NaN.
DS2_INLINE Floats Exp(Floats x) {
  const Floats lowest = Broadcast(-87.0f);
  const Floats clamped = x < lowest ? lowest : x;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the sum's last bits.
  const Floats magic = Broadcast(12582912.0f + 127.0f);
  const Floats shifted = clamped * 1.44269504f + magic;
  const Floats exponent = shifted - magic;
  // ln 2 in two parts, the first short enough for exact products.
  Floats r = clamped - exponent * 0.693359375f;
  r = r - exponent * -2.12194440e-4f;
  // Fitted to exp on [-ln 2 / 2, ln 2 / 2]; largest relative error 3e-9.
  Floats q = r * 0.0013950490706f + 0.0083688894058f;
  q = q * r + 0.0416662058082f;
  q = q * r + 0.1666651883911f;
  q = q * r + 0.5000000095184f;
  const Floats mantissa = q * (r * r) + r + 1.0f;
  const Floats scale = (Floats)((Ints)shifted << 23);
  return x < lowest ? Floats{} : mantissa * scale;
}

// Splits e^x, x <= 0, into mantissa * 2^exponent with a mantissa in [0.7, 1.42], to 1e-12 relative.
DS2_INLINE void SplitExp(Doubles x, Doubles* mantissa, Doubles* exponent) {
  // Whatever x, its exponent stays far from the limits of exact integers.
  const Doubles lowest = Broadcast(-1e12);
  const Doubles clamped = x < lowest ? lowest : x;
  const Doubles magic = Broadcast(6755399441055744.0);
  *exponent = clamped * 1.4426950408889634 + magic - magic;
  Doubles r = clamped - *exponent * 0.693147180369123816490;
  r = r - *exponent * 1.90821492927058770002e-10;
  Doubles q = r * (1.0 / 39916800) + 1.0 / 3628800;
  q = q * r + 1.0 / 362880;
  q = q * r + 1.0 / 40320;
  q = q * r + 1.0 / 5040;
  q = q * r + 1.0 / 720;
  q = q * r + 1.0 / 120;
  q = q * r + 1.0 / 24;
  q = q * r + 1.0 / 6;
  q = q * r + 0.5;
  *mantissa = q * (r * r) + r + 1.0;
}

// Returns 2^exponent for integers in [-1022, 1023].
DS2_INLINE Doubles PowerOfTwo(Doubles exponent) {
  const Doubles shifted = exponent + (6755399441055744.0 + 1023.0);
  return (Doubles)((Longs)shifted << 52);
}
