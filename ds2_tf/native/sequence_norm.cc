#include "ds2_tf/native/sequence_norm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ds2_tf/native/sequence_norm_kernels.h"

namespace ds2 {
namespace {

// Small enough that the second look at a piece finds it in the cache. How sums are cut, and so
// their rounding, depends on nothing but the shape and the lengths.
constexpr int64_t kValuesPerPiece = 1 << 15;

// Rows of channels in a row of one utterance.
struct Piece {
  int64_t first_row;  // of all rows, padding included
  int64_t rows;
  bool valid;
};

int64_t RowsPerPiece(const Sequences& s) {
  return std::max<int64_t>(1, kValuesPerPiece / std::max<int64_t>(1, s.channels));
}

void Cut(int64_t begin, int64_t end, bool valid, int64_t rows, std::vector<Piece>* pieces) {
  for (; begin < end; begin += rows) {
    pieces->push_back({begin, std::min(rows, end - begin), valid});
  }
}

// The pieces of the valid frames, and those of the padding if asked for.
std::vector<Piece> Pieces(const Sequences& s, bool with_padding) {
  std::vector<Piece> pieces;
  const int64_t rows = RowsPerPiece(s);
  for (int64_t i = 0; i < s.batch; ++i) {
    const int64_t begin = i * s.frames * s.positions;
    const int64_t end = begin + s.lengths[i] * s.positions;
    Cut(begin, end, true, rows, &pieces);
    if (with_padding) Cut(end, begin + s.frames * s.positions, false, rows, &pieces);
  }
  return pieces;
}

template <class T>
const NormKernels<T>& Kernels() {
  static const NormKernels<T> kernels = FindNormKernels<T>(BestInstructionSet());
  return kernels;
}

// Runs `fill` on the pieces of valid frames, and sets the others to zero.
template <class T, class Fill>
void FillValid(const Sequences& s, T* to, const Parallel& parallel, const Fill& fill) {
  const std::vector<Piece> pieces = Pieces(s, true);
  parallel.run(pieces.size(), [&](int64_t i) {
    const Piece& piece = pieces[i];
    if (piece.valid) {
      fill(piece.rows, piece.first_row * s.channels);
    } else {
      std::memset(static_cast<void*>(to + piece.first_row * s.channels), 0,
                  piece.rows * s.channels * sizeof(T));
    }
  });
}

}  // namespace

size_t NormWorkspaceBytes(const Sequences& s) {
  return Pieces(s, false).size() * 2 * s.channels * sizeof(float);
}

template <class T>
void Moments(const Sequences& s, const T* x, float* mean, float* variance, void* workspace,
             const Parallel& parallel) {
  const std::vector<Piece> pieces = Pieces(s, false);
  float* found = static_cast<float*>(workspace);  // [pieces, 2, channels]
  parallel.run(pieces.size(), [&](int64_t i) {
    float* here = found + 2 * i * s.channels;
    Kernels<T>().moments(pieces[i].rows, s.channels, x + pieces[i].first_row * s.channels, here,
                         here + s.channels);
  });
  // Source: Chan et al. 1979, "Updating formulae and a pairwise algorithm for computing sample
  // variances".
  for (int64_t c = 0; c < s.channels; ++c) {
    double count = 0, total_mean = 0, squares = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const float* here = found + 2 * i * s.channels + c;
      const double rows = pieces[i].rows;
      const double difference = here[0] - total_mean;
      const double share = rows / (count + rows);
      total_mean += share * difference;
      squares += here[s.channels] + share * count * difference * difference;
      count += rows;
    }
    mean[c] = total_mean;
    variance[c] = count > 0 ? squares / count : 0.0;
  }
}

template <class T>
void ApplyAffine(const Sequences& s, const Affine& affine, const T* x, T* y,
                 const Parallel& parallel) {
  FillValid(s, y, parallel, [&](int64_t rows, int64_t first) {
    Kernels<T>().apply(rows, s.channels, affine, x + first, y + first);
  });
}

template <class T>
void AffineSums(const Sequences& s, const Affine& affine, const T* x, const T* by_y,
                const float* centre, float* sum, float* centred_sum, void* workspace,
                const Parallel& parallel) {
  const std::vector<Piece> pieces = Pieces(s, false);
  float* found = static_cast<float*>(workspace);  // [pieces, 2, channels]
  parallel.run(pieces.size(), [&](int64_t i) {
    const int64_t first = pieces[i].first_row * s.channels;
    float* here = found + 2 * i * s.channels;
    Kernels<T>().sums(pieces[i].rows, s.channels, affine, x + first, by_y + first, centre, here,
                      here + s.channels);
  });
  for (int64_t c = 0; c < s.channels; ++c) {
    double totals[2] = {0, 0};
    for (size_t i = 0; i < pieces.size(); ++i) {
      totals[0] += found[2 * i * s.channels + c];
      totals[1] += found[(2 * i + 1) * s.channels + c];
    }
    sum[c] = totals[0];
    centred_sum[c] = totals[1];
  }
}

template <class T>
void AffineGradient(const Sequences& s, const Affine& affine, const T* x, const T* by_y,
                    const float* factor, const float* offset, T* by_x, const Parallel& parallel) {
  FillValid(s, by_x, parallel, [&](int64_t rows, int64_t first) {
    Kernels<T>().gradient(rows, s.channels, affine, x + first, by_y + first, factor, offset,
                          by_x + first);
  });
}

#define DS2_INSTANTIATE(T)                                                                       \
  template void Moments(const Sequences&, const T*, float*, float*, void*, const Parallel&);     \
  template void ApplyAffine(const Sequences&, const Affine&, const T*, T*, const Parallel&);     \
  template void AffineSums(const Sequences&, const Affine&, const T*, const T*, const float*,    \
                           float*, float*, void*, const Parallel&);                              \
  template void AffineGradient(const Sequences&, const Affine&, const T*, const T*,              \
                               const float*, const float*, T*, const Parallel&);
DS2_INSTANTIATE(float)
DS2_INSTANTIATE(Bfloat16)
#undef DS2_INSTANTIATE

}  // namespace ds2
