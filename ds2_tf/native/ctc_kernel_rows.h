// CTC for GPUs: the kernels that work on frames apart from each other. See ctc_kernel.h.

#ifndef DS2_TF_NATIVE_CTC_KERNEL_ROWS_H_
#define DS2_TF_NATIVE_CTC_KERNEL_ROWS_H_

#include "ctc_kernel.h"

namespace ds2 {

// Kernel 1: the softmax. Each group of kRowThreads threads takes one frame of one utterance: keeps
// its largest logit and its sum of exponentials, and writes the softmax to the gradient; zero for
// frames past the utterance's end.
template <typename T, typename Block>
DS2_DEVICE void SoftmaxBody(Block& block, const CtcKernelArguments& arguments) {
  const CtcBatch& batch = arguments.batch;
  const int first_row = block.index() * (kRowsThreads / kRowThreads);
  const int num_rows = batch.num_utterances * batch.num_frames;
  float* largest = block.template Shared<float>();
  float* sums = largest + kRowsThreads;
  block.Run([&](int thread) {
    const int row = first_row + thread / kRowThreads;
    largest[thread] = -INFINITY;
    if (row >= num_rows) return;
    const T* logits = LogitRow<T>(batch, row / batch.num_frames, row % batch.num_frames);
    for (int v = thread % kRowThreads; v < batch.num_symbols; v += kRowThreads) {
      largest[thread] = Larger()(ToFloat(logits[v]), largest[thread]);
    }
  });
  ReduceGroups(block, kRowThreads, largest, Larger());
  block.Run([&](int thread) {
    const int row = first_row + thread / kRowThreads;
    sums[thread] = 0.0f;
    if (row >= num_rows) return;
    const T* logits = LogitRow<T>(batch, row / batch.num_frames, row % batch.num_frames);
    const float row_largest = largest[thread / kRowThreads * kRowThreads];
    for (int v = thread % kRowThreads; v < batch.num_symbols; v += kRowThreads) {
      sums[thread] += ExpDifference(ToFloat(logits[v]), row_largest);
    }
  });
  ReduceGroups(block, kRowThreads, sums, Sum());
  block.Run([&](int thread) {
    const int row = first_row + thread / kRowThreads;
    if (row >= num_rows) return;
    const int utterance = row / batch.num_frames;
    const int frame = row % batch.num_frames;
    const float row_largest = largest[thread / kRowThreads * kRowThreads];
    const float row_sum = sums[thread / kRowThreads * kRowThreads];
    if (thread % kRowThreads == 0) {
      arguments.row_largest[row] = row_largest;
      arguments.row_sums[row] = row_sum;
    }
    if (batch.gradients == nullptr) return;
    const bool counts = frame < NumFrames(batch, utterance);
    const T* logits = LogitRow<T>(batch, utterance, frame);
    T* gradients = GradientRow<T>(batch, utterance, frame);
    for (int v = thread % kRowThreads; v < batch.num_symbols; v += kRowThreads) {
      const float value = counts ? ExpDifference(ToFloat(logits[v]), row_largest) / row_sum : 0.0f;
      FromFloat(value, &gradients[v]);
    }
  });
}

// Kernel 3: the gradient in the columns of the target's symbols. Groups of threads take frames as
// in kernel 1. Zeroes the whole row of an utterance that has no gradient.
template <typename T, typename Block>
DS2_DEVICE void GradientBody(Block& block, const CtcKernelArguments& arguments) {
  const CtcBatch& batch = arguments.batch;
  const int first_row = block.index() * (kRowsThreads / kRowThreads);
  const int num_rows = batch.num_utterances * batch.num_frames;
  int32_t* exponents = block.template Shared<int32_t>();
  float* blank_sums = reinterpret_cast<float*>(exponents + kRowsThreads);
  float* label_sums = blank_sums + kRowsThreads;

  // Calls function(utterance, frame, number of labels, the frame's products) for the thread's row
  // if it has a gradient.
  const auto with_row = [&](int thread, auto function) {
    const int row = first_row + thread / kRowThreads;
    if (row >= num_rows) return;
    const int utterance = row / batch.num_frames;
    const int frame = row % batch.num_frames;
    if (batch.statuses[utterance] != CtcStatus::kOk) return;
    if (frame >= NumFrames(batch, utterance)) return;
    function(utterance, frame, batch.label_lengths[utterance],
             arguments.products + row * static_cast<ptrdiff_t>(arguments.max_states));
  };

  block.Run([&](int thread) {
    exponents[thread] = 2 * kZeroExponent;
    with_row(thread, [&](int, int, int num_labels, const ScaledFloat* products) {
      for (int s = thread % kRowThreads; s < 2 * num_labels + 1; s += kRowThreads) {
        exponents[thread] = Larger()(products[s].exponent, exponents[thread]);
      }
    });
  });
  ReduceGroups(block, kRowThreads, exponents, Larger());
  block.Run([&](int thread) {
    blank_sums[thread] = 0.0f;
    label_sums[thread] = 0.0f;
    with_row(thread, [&](int, int, int num_labels, const ScaledFloat* products) {
      const int32_t exponent = exponents[thread / kRowThreads * kRowThreads];
      for (int u = thread % kRowThreads; u < num_labels + 1; u += kRowThreads) {
        const ScaledFloat blank = products[2 * u];
        blank_sums[thread] += ShiftDown(blank.mantissa, blank.exponent - exponent);
        if (u == num_labels) continue;
        const ScaledFloat label = products[2 * u + 1];
        label_sums[thread] += ShiftDown(label.mantissa, label.exponent - exponent);
      }
    });
  });
  ReduceGroups(block, kRowThreads, blank_sums, Sum());
  ReduceGroups(block, kRowThreads, label_sums, Sum());
  block.Run([&](int thread) {
    with_row(thread, [&](int utterance, int frame, int num_labels, const ScaledFloat* products) {
      const int group = thread / kRowThreads * kRowThreads;
      const int row = utterance * batch.num_frames + frame;
      const int32_t* labels = batch.labels + utterance * static_cast<ptrdiff_t>(batch.max_labels);
      const int32_t* order =
          arguments.label_order + utterance * static_cast<ptrdiff_t>(batch.max_labels);
      const float total = blank_sums[group] + label_sums[group];
      const T* logits = LogitRow<T>(batch, utterance, frame);
      T* gradients = GradientRow<T>(batch, utterance, frame);
      const auto store = [&](int symbol, float occupancy) {
        const float softmax = ExpDifference(ToFloat(logits[symbol]), arguments.row_largest[row]) /
                              arguments.row_sums[row];
        FromFloat(softmax - occupancy / total, &gradients[symbol]);
      };
      if (thread == group) store(batch.blank, blank_sums[group]);
      // Equal labels are neighbours in `order`; the first of them has its thread sum them all.
      for (int i = thread - group; i < num_labels; i += kRowThreads) {
        const int symbol = labels[order[i]];
        if (i > 0 && labels[order[i - 1]] == symbol) continue;
        float occupancy = 0.0f;
        for (int j = i; j < num_labels && labels[order[j]] == symbol; ++j) {
          const ScaledFloat product = products[2 * order[j] + 1];
          occupancy += ShiftDown(product.mantissa, product.exponent - exponents[group]);
        }
        store(symbol, occupancy);
      }
    });
  });
  block.Run([&](int thread) {
    const int row = first_row + thread / kRowThreads;
    if (row >= num_rows || batch.statuses[row / batch.num_frames] == CtcStatus::kOk) return;
    T* gradients = GradientRow<T>(batch, row / batch.num_frames, row % batch.num_frames);
    for (int v = thread % kRowThreads; v < batch.num_symbols; v += kRowThreads) {
      FromFloat(0.0f, &gradients[v]);
    }
  });
}

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_KERNEL_ROWS_H_
