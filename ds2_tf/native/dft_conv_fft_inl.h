// Fourier transforms of DS2_LANES sequences at once. No include guard.
//
// A transform reads and writes sequences of complex vectors of several kinds, each with its
// LoadPoint or StorePoint.

namespace ds2 {
namespace DS2_SET {
namespace {

using dft_conv::Fft;
using dft_conv::FftPass;

struct Complex {
  Vector real, imaginary;
};

// Complex vectors in memory, `step` floats apart: the real parts, then the imaginary ones, or
// swapped. A transform of and to swapped parts is the inverse transform, but for the scale.
template <bool kSwapped>
struct Points {
  float* data;
  int64_t step;
};

template <bool kSwapped>
DS2_INLINE Complex LoadPoint(const Points<kSwapped>& points, int64_t i) {
  const float* const from = points.data + i * points.step;
  const Vector first = Load(from), second = Load(from + kLanes);
  return kSwapped ? Complex{second, first} : Complex{first, second};
}

template <bool kSwapped>
DS2_INLINE void StorePoint(const Points<kSwapped>& points, int64_t i, const Complex& z) {
  float* const to = points.data + i * points.step;
  Store(kSwapped ? z.imaginary : z.real, to);
  Store(kSwapped ? z.real : z.imaginary, to + kLanes);
}

// The first `count` points of a sequence: the others are zero, or not wanted.
template <bool kSwapped>
struct Head {
  Points<kSwapped> points;
  int64_t count;
};

template <bool kSwapped>
DS2_INLINE Complex LoadPoint(const Head<kSwapped>& head, int64_t i) {
  if (i >= head.count) return Complex{};
  return LoadPoint(head.points, i);
}

template <bool kSwapped>
DS2_INLINE void StorePoint(const Head<kSwapped>& head, int64_t i, const Complex& z) {
  if (i < head.count) StorePoint(head.points, i, z);
}

// The first `count` of 2 * half real frames, kGroupLanes apart, as twisted complex numbers (see
// dft_conv_plan.h): the others are zero, or not wanted.
template <typename Float>
struct Frames {
  Float* data;
  int64_t count;
  int64_t half;
  const float* twist;
};

DS2_INLINE Vector LoadFrame(const Frames<const float>& frames, int64_t n) {
  if (n >= frames.count) return Vector{};
  return Load(frames.data + n * dft_conv::kGroupLanes);
}

DS2_INLINE Complex LoadPoint(const Frames<const float>& frames, int64_t n) {
  const Vector early = LoadFrame(frames, n), late = LoadFrame(frames, n + frames.half);
  const float cosine = frames.twist[2 * n], sine = frames.twist[2 * n + 1];
  return {early * cosine - late * sine, -(early * sine + late * cosine)};
}

DS2_INLINE void StoreFrame(const Frames<float>& frames, int64_t n, const Vector& x) {
  if (n < frames.count) Store(x, frames.data + n * dft_conv::kGroupLanes);
}

// Of an inverse transform: the parts are swapped.
DS2_INLINE void StorePoint(const Frames<float>& frames, int64_t n, const Complex& swapped) {
  const float cosine = frames.twist[2 * n], sine = frames.twist[2 * n + 1];
  StoreFrame(frames, n, swapped.imaginary * cosine - swapped.real * sine);
  StoreFrame(frames, n + frames.half, -(swapped.imaginary * sine + swapped.real * cosine));
}

DS2_INLINE Complex Add(const Complex& a, const Complex& b) {
  return {a.real + b.real, a.imaginary + b.imaginary};
}

DS2_INLINE Complex Subtract(const Complex& a, const Complex& b) {
  return {a.real - b.real, a.imaginary - b.imaginary};
}

DS2_INLINE Complex TimesMinusI(const Complex& a) { return {a.imaginary, -a.real}; }

DS2_INLINE Complex Scale(const Complex& a, float scale) {
  return {a.real * scale, a.imaginary * scale};
}

DS2_INLINE Complex Multiply(const Complex& a, const float* w) {
  return {a.real * w[0] - a.imaginary * w[1], a.real * w[1] + a.imaginary * w[0]};
}

DS2_INLINE void Transform2(Complex& a, Complex& b) {
  const Complex sum = Add(a, b);
  b = Subtract(a, b);
  a = sum;
}

DS2_INLINE void Transform4(Complex& a, Complex& b, Complex& c, Complex& d) {
  Transform2(a, c);
  Transform2(b, d);
  Transform2(a, b);
  const Complex e = TimesMinusI(d);
  d = Subtract(c, e);
  const Complex f = Add(c, e);
  c = b;
  b = f;
}

DS2_INLINE void SmallTransform(Complex (&z)[2]) { Transform2(z[0], z[1]); }

DS2_INLINE void SmallTransform(Complex (&z)[3]) {
  constexpr float kHalfSqrt3 = 0.866025403784438647f;
  const Complex sum = Add(z[1], z[2]);
  const Complex side = Scale(TimesMinusI(Subtract(z[1], z[2])), kHalfSqrt3);
  const Complex middle = Subtract(z[0], Scale(sum, 0.5f));
  z[0] = Add(z[0], sum);
  z[1] = Add(middle, side);
  z[2] = Subtract(middle, side);
}

DS2_INLINE void SmallTransform(Complex (&z)[4]) { Transform4(z[0], z[1], z[2], z[3]); }

DS2_INLINE void SmallTransform(Complex (&z)[8]) {
  constexpr float kSqrtHalf = 0.707106781186547524f;
  Transform4(z[0], z[2], z[4], z[6]);
  Transform4(z[1], z[3], z[5], z[7]);
  const Complex odd[4] = {z[1], Scale(Add(z[3], TimesMinusI(z[3])), kSqrtHalf), TimesMinusI(z[5]),
                          Scale(Subtract(TimesMinusI(z[7]), z[7]), kSqrtHalf)};
  const Complex even[4] = {z[0], z[2], z[4], z[6]};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    z[i] = Add(even[i], odd[i]);
    z[i + 4] = Subtract(even[i], odd[i]);
  }
}

// Arguments by value: stores could change what is behind a reference. One flat loop: many passes
// have a stride of 1, where a loop within a loop would cost more than the transform.
template <int kRadix, typename In, typename Out>
DS2_TARGET void RunPassOf(const FftPass pass, const In in, const Out out) {
  const int64_t stride = pass.stride;
  const int64_t distance = stride * (pass.length / kRadix);
  const float* twiddles = nullptr;  // those of the first `stride` points are 1
  int64_t target = 0;
  int64_t rest = stride;
  for (int64_t source = 0; source < distance; ++source, ++target) {
    if (rest-- == 0) {
      rest = stride - 1;
      target += stride * (kRadix - 1);
      twiddles = twiddles == nullptr ? pass.twiddles : twiddles + 2 * (kRadix - 1);
    }
    Complex z[kRadix];
#pragma GCC unroll 8
    for (int i = 0; i < kRadix; ++i) z[i] = LoadPoint(in, source + i * distance);
    SmallTransform(z);
    StorePoint(out, target, z[0]);
#pragma GCC unroll 8
    for (int i = 1; i < kRadix; ++i) {
      if (twiddles != nullptr) z[i] = Multiply(z[i], twiddles + 2 * (i - 1));
      StorePoint(out, target + i * stride, z[i]);
    }
  }
}

template <typename In, typename Out>
DS2_INLINE void RunPass(const FftPass& pass, const In& in, const Out& out) {
  switch (pass.radix) {
    case 8: return RunPassOf<8>(pass, in, out);
    case 4: return RunPassOf<4>(pass, in, out);
    case 3: return RunPassOf<3>(pass, in, out);
    default: return RunPassOf<2>(pass, in, out);
  }
}

// Transforms a sequence. `in` and `out` may be the same memory. `scratch` holds 2 * fft.size
// complex vectors.
template <bool kSwapped, typename In, typename Out>
DS2_INLINE void RunFft(const Fft& fft, const In& in, const Out& out, float* scratch) {
  const int last = fft.num_passes - 1;
  if (last < 0) return StorePoint(out, 0, LoadPoint(in, 0));
  if (last == 0) return RunPass(fft.passes[0], in, out);
  constexpr int64_t kStep = 2 * kLanes;
  const Points<kSwapped> buffers[2] = {{scratch, kStep}, {scratch + fft.size * kStep, kStep}};
  RunPass(fft.passes[0], in, buffers[0]);
  for (int i = 1; i < last; ++i) RunPass(fft.passes[i], buffers[(i - 1) % 2], buffers[i % 2]);
  RunPass(fft.passes[last], buffers[(last - 1) % 2], out);
}

}  // namespace
}  // namespace DS2_SET
}  // namespace ds2
