// CTC for GPUs: the kernel of the forward-backward recursion. See ctc_kernel.h.

#ifndef DS2_TF_NATIVE_CTC_KERNEL_RECURSION_H_
#define DS2_TF_NATIVE_CTC_KERNEL_RECURSION_H_

#include "ctc_kernel.h"

namespace ds2 {

// One block's utterance and memory. State 2u is the blank before label u, state 2u+1 label u.
struct Recursion {
  int utterance;
  int num_frames;
  int num_labels;
  int num_states;
  int32_t lowest_exponent;  // of an emission
  int32_t* labels;          // [U]
  ScaledFloat* column;      // [states]
  ScaledFloat* column2;     // [states]
  ScaledFloat* emissions;   // [tile frames, U + 1], the blank's last
  ScaledFloat* alphas;      // the utterance's if they are in shared memory, else a tile
  ScaledFloat* products;    // [T, max_states] in global memory
};

// Returns the emission of the state in the tile's frame.
DS2_DEVICE inline ScaledFloat Emission(const Recursion& recursion, int tile_frame, int state) {
  const int column = state % 2 == 1 ? state / 2 : recursion.num_labels;
  return recursion.emissions[tile_frame * (recursion.num_labels + 1) + column];
}

// Returns whether paths may step to the state from the one two before it.
DS2_DEVICE inline bool CanSkip(const Recursion& recursion, int state) {
  return state % 2 == 1 && state >= 3 &&
         recursion.labels[state / 2] != recursion.labels[state / 2 - 1];
}

template <typename Block>
DS2_DEVICE Recursion MakeRecursion(Block& block, const CtcKernelArguments& arguments) {
  const CtcBatch& batch = arguments.batch;
  const RecursionPlan& plan = arguments.plan;
  Recursion recursion;
  recursion.utterance = block.index();
  recursion.num_frames = NumFrames(batch, recursion.utterance);
  const int num_labels = batch.label_lengths[recursion.utterance];
  recursion.num_labels = num_labels < 0 || num_labels > batch.max_labels ? 0 : num_labels;
  recursion.num_states = 2 * recursion.num_labels + 1;
  recursion.lowest_exponent = -(1 << 28) / (recursion.num_frames + 1);
  char* memory = plan.columns_are_shared
                     ? block.template Shared<char>() + 16 * plan.num_threads
                     : arguments.columns + recursion.utterance * plan.global_bytes;
  // Columns first: they need the stricter alignment.
  recursion.column = reinterpret_cast<ScaledFloat*>(memory);
  recursion.column2 = recursion.column + arguments.max_states;
  recursion.emissions = recursion.column2 + arguments.max_states;
  recursion.alphas = recursion.emissions + plan.tile_frames * (batch.max_labels + 1);
  const int num_alphas = plan.alphas_are_shared ? batch.num_frames : plan.tile_frames;
  recursion.labels = reinterpret_cast<int32_t*>(
      recursion.alphas + static_cast<ptrdiff_t>(num_alphas) * arguments.max_states);
  recursion.products =
      arguments.products + static_cast<ptrdiff_t>(recursion.utterance) * batch.num_frames *
                               arguments.max_states;
  return recursion;
}

// Fetches the labels and checks the utterance. Sets *log_sum to the sum over frames of the
// logarithm of row_sums.
template <typename Block>
DS2_DEVICE CtcStatus Check(Block& block, const CtcKernelArguments& arguments,
                           const Recursion& recursion, double* log_sum) {
  const CtcBatch& batch = arguments.batch;
  const int num_threads = arguments.plan.num_threads;
  double* log_sums = block.template Shared<double>();
  int32_t* repeats = reinterpret_cast<int32_t*>(log_sums + num_threads);
  int32_t* problems = repeats + num_threads;
  const int32_t* labels =
      batch.labels + static_cast<ptrdiff_t>(recursion.utterance) * batch.max_labels;
  const float* sums =
      arguments.row_sums + static_cast<ptrdiff_t>(recursion.utterance) * batch.num_frames;
  constexpr int32_t kBadLabel = 2;
  constexpr int32_t kBadLogit = 1;
  block.Run([&](int thread) {
    repeats[thread] = 0;
    problems[thread] = 0;
    log_sums[thread] = 0.0;
    for (int u = thread; u < recursion.num_labels; u += num_threads) {
      const int32_t label = labels[u];
      recursion.labels[u] = label;
      if (label < 0 || label >= batch.num_symbols || label == batch.blank) {
        problems[thread] = kBadLabel;
      }
      if (u > 0 && label == labels[u - 1]) ++repeats[thread];
    }
    for (int t = thread; t < recursion.num_frames; t += num_threads) {
      if (!(sums[t] > 0.0f)) problems[thread] = Larger()(problems[thread], kBadLogit);
      log_sums[thread] += log(static_cast<double>(sums[t]));
    }
  });
  ReduceGroups(block, num_threads, repeats, Sum());
  ReduceGroups(block, num_threads, problems, Larger());
  ReduceGroups(block, num_threads, log_sums, Sum());
  *log_sum = log_sums[0];
  if (recursion.num_frames != batch.logit_lengths[recursion.utterance] ||
      recursion.num_labels != batch.label_lengths[recursion.utterance]) {
    return CtcStatus::kInvalidLength;
  }
  if (problems[0] == kBadLabel) return CtcStatus::kInvalidLabel;
  if (recursion.num_frames < recursion.num_labels + repeats[0]) return CtcStatus::kInfeasible;
  return problems[0] == kBadLogit ? CtcStatus::kInvalidLogit : CtcStatus::kOk;
}

// Orders the labels by symbol, equal ones by position: each finds its place by counting.
template <typename Block>
DS2_DEVICE void SortLabels(Block& block, const CtcKernelArguments& arguments,
                           const Recursion& recursion) {
  int32_t* order = arguments.label_order +
                   static_cast<ptrdiff_t>(recursion.utterance) * arguments.batch.max_labels;
  block.Run([&](int thread) {
    for (int u = thread; u < recursion.num_labels; u += arguments.plan.num_threads) {
      const int32_t label = recursion.labels[u];
      int place = 0;
      for (int v = 0; v < recursion.num_labels; ++v) {
        const int32_t other = recursion.labels[v];
        place += other < label || (other == label && v < u);
      }
      order[place] = u;
    }
  });
}

// Fetches the emissions, and the alphas if they come from global memory, of frames
// [first, first + count).
template <typename T, typename Block>
DS2_DEVICE void LoadTile(Block& block, const CtcKernelArguments& arguments,
                         const Recursion& recursion, int first, int count, bool with_alphas) {
  const CtcBatch& batch = arguments.batch;
  const int width = recursion.num_labels + 1;
  block.Run([&](int thread) {
    for (int i = thread; i < count * width; i += arguments.plan.num_threads) {
      const int frame = first + i / width;
      const int symbol =
          i % width < recursion.num_labels ? recursion.labels[i % width] : batch.blank;
      const float logit = ToFloat(LogitRow<T>(batch, recursion.utterance, frame)[symbol]);
      const float largest =
          arguments.row_largest[static_cast<ptrdiff_t>(recursion.utterance) * batch.num_frames +
                                frame];
      recursion.emissions[i] = ScaledExp(logit, largest, recursion.lowest_exponent);
    }
    if (!with_alphas) return;
    for (int i = thread; i < count * recursion.num_states; i += arguments.plan.num_threads) {
      const int frame = i / recursion.num_states;
      const int state = i % recursion.num_states;
      recursion.alphas[frame * arguments.max_states + state] =
          recursion.products[static_cast<ptrdiff_t>(first + frame) * arguments.max_states + state];
    }
  });
}

// Computes alpha; returns the last column.
template <typename T, typename Block>
DS2_DEVICE const ScaledFloat* Forward(Block& block, const CtcKernelArguments& arguments,
                                      const Recursion& recursion) {
  const RecursionPlan& plan = arguments.plan;
  const bool stores_alphas = !plan.alphas_are_shared && arguments.batch.gradients != nullptr;
  // Before the first frame stands a blank that every path starts from.
  const ScaledFloat* column = recursion.column2;
  block.Run([&](int thread) {
    for (int s = thread; s < recursion.num_states; s += plan.num_threads) {
      recursion.column2[s] = s == 0 ? ScaledOne() : ScaledZero();
    }
  });
  for (int first = 0; first < recursion.num_frames; first += plan.tile_frames) {
    const int rest = recursion.num_frames - first;
    const int count = rest < plan.tile_frames ? rest : plan.tile_frames;
    LoadTile<T>(block, arguments, recursion, first, count, false);
    for (int i = 0; i < count; ++i) {
      const ptrdiff_t offset = static_cast<ptrdiff_t>(first + i) * arguments.max_states;
      ScaledFloat* next = plan.alphas_are_shared ? recursion.alphas + offset
                          : column == recursion.column2 ? recursion.column
                                                        : recursion.column2;
      block.Run([&](int thread) {
        for (int s = thread; s < recursion.num_states; s += plan.num_threads) {
          const ScaledFloat sum =
              Add(column[s], s > 0 ? column[s - 1] : ScaledZero(),
                  CanSkip(recursion, s) ? column[s - 2] : ScaledZero());
          next[s] = Multiply(sum, Emission(recursion, i, s));
          if (stores_alphas) recursion.products[offset + s] = next[s];
        }
      });
      column = next;
    }
  }
  return column;
}

// Computes beta, one column at a time, and the products of alpha and beta.
template <typename T, typename Block>
DS2_DEVICE void Backward(Block& block, const CtcKernelArguments& arguments,
                         const Recursion& recursion) {
  const RecursionPlan& plan = arguments.plan;
  const int last = recursion.num_states - 1;
  // A column holds beta times the emission of its own frame. Past the last frame stands a blank
  // that every path ends in.
  const ScaledFloat* column = recursion.column2;
  block.Run([&](int thread) {
    for (int s = thread; s <= last; s += plan.num_threads) {
      recursion.column2[s] = s == last ? ScaledOne() : ScaledZero();
    }
  });
  for (int end = recursion.num_frames; end > 0; end -= plan.tile_frames) {
    const int first = end < plan.tile_frames ? 0 : end - plan.tile_frames;
    LoadTile<T>(block, arguments, recursion, first, end - first, !plan.alphas_are_shared);
    for (int t = end - 1; t >= first; --t) {
      ScaledFloat* next =
          column == recursion.column2 ? recursion.column : recursion.column2;
      const ScaledFloat* alphas =
          recursion.alphas + static_cast<ptrdiff_t>(plan.alphas_are_shared ? t : t - first) *
                                 arguments.max_states;
      ScaledFloat* products = recursion.products + static_cast<ptrdiff_t>(t) * arguments.max_states;
      block.Run([&](int thread) {
        for (int s = thread; s <= last; s += plan.num_threads) {
          const ScaledFloat beta =
              Add(column[s], s + 1 <= last ? column[s + 1] : ScaledZero(),
                  s + 2 <= last && CanSkip(recursion, s + 2) ? column[s + 2] : ScaledZero());
          products[s] = Multiply(alphas[s], beta);
          next[s] = Multiply(beta, Emission(recursion, t - first, s));
        }
      });
      column = next;
    }
  }
}

// Kernel 2: one block an utterance. Writes its loss, status, label order and products.
template <typename T, typename Block>
DS2_DEVICE void RecursionBody(Block& block, const CtcKernelArguments& arguments) {
  const CtcBatch& batch = arguments.batch;
  const Recursion recursion = MakeRecursion(block, arguments);
  double log_sum;
  CtcStatus status = Check(block, arguments, recursion, &log_sum);
  double loss = status == CtcStatus::kInfeasible ? INFINITY : NAN;
  if (status == CtcStatus::kOk) {
    SortLabels(block, arguments, recursion);
    const ScaledFloat* column = Forward<T>(block, arguments, recursion);
    const int last = recursion.num_states - 1;
    const ScaledFloat total =
        Add(column[last], last > 0 ? column[last - 1] : ScaledZero(), ScaledZero());
    if (total.mantissa > 0.0f) {
      loss = log_sum - log(static_cast<double>(total.mantissa)) -
             total.exponent * 0.693147180559945309417;
    } else {
      status = CtcStatus::kImpossible;
      loss = INFINITY;
    }
  }
  block.Run([&](int thread) {
    if (thread != 0) return;
    batch.losses[recursion.utterance] = static_cast<float>(loss);
    batch.statuses[recursion.utterance] = status;
  });
  if (status == CtcStatus::kOk && batch.gradients != nullptr) {
    Backward<T>(block, arguments, recursion);
  }
}

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_KERNEL_RECURSION_H_
