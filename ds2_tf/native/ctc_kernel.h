// CTC for GPUs: what its three kernels share.
//
// A kernel's body is a sequence of phases. In block.Run(function) every thread of the block calls
// function(thread), and all wait for each other at its end; nothing else synchronises. So the same
// text runs on a GPU (ctc_cuda.cu) and, thread after thread, on a host (ctc_emulation.cc), where
// the tests execute it. Variables outside the phases hold the same value in every thread.
//
// No atomics: sums have a fixed order, and the result is the same bit for bit from run to run.
//
// Numbers are floats with exponents (scaled_float.h). A logit so far below its frame's largest that
// the utterance's exponents could overflow counts as -infinity: for 1,000 frames that is 180,000.
//
// Source: Deep Speech 2, section 4.2: one block an utterance, alpha in shared memory where it
// fits, beta one column at a time, the gradient summed symbol by symbol in the labels' order.

#ifndef DS2_TF_NATIVE_CTC_KERNEL_H_
#define DS2_TF_NATIVE_CTC_KERNEL_H_

#include <cstddef>
#include <cstdint>

#include "ctc.h"
#include "half.h"
#include "scaled_float.h"

#ifdef __CUDACC__
#define DS2_DEVICE __device__
#else
#define DS2_DEVICE
#endif

namespace ds2 {

// Threads of a block in the kernels over frames, and how many of them share a frame.
constexpr int kRowsThreads = 256;
constexpr int kRowThreads = 32;
constexpr int kRowsSharedBytes = 3 * kRowsThreads * sizeof(float);
constexpr int kMaxRecursionThreads = 512;

// How the recursion kernel uses a multiprocessor.
struct RecursionPlan {
  int num_threads;  // a power of two
  // Frames whose emissions (and alphas) a block fetches at once: their latency is paid once.
  int tile_frames;
  bool alphas_are_shared;    // in shared memory, else in the products' place in global memory
  bool columns_are_shared;   // and labels and tiles; else in global memory: very long transcripts
  size_t shared_bytes;
  size_t global_bytes;  // for each utterance, if the columns are not shared
};

// Plans for a multiprocessor whose blocks may have `shared_limit` bytes.
RecursionPlan PlanRecursion(int num_frames, int max_labels, size_t shared_limit);

// All pointers are to the device's memory.
struct CtcKernelArguments {
  CtcBatch batch;
  RecursionPlan plan;
  int max_states;        // 2 max_labels + 1
  float* row_largest;    // [B, T], the frame's largest logit
  float* row_sums;       // [B, T], the frame's sum of e^(logit - largest)
  int32_t* label_order;  // [B, max_labels], positions of the labels, equal symbols together
  ScaledFloat* products;  // [B, T, max_states], alpha times beta
  char* columns;          // [B, plan.global_bytes]
};

// Returns the bytes of workspace, and points the arguments into it.
size_t CtcKernelWorkspaceBytes(const CtcBatch& batch, const RecursionPlan& plan);
CtcKernelArguments DivideCtcKernelWorkspace(const CtcBatch& batch, const RecursionPlan& plan,
                                            void* workspace);

// Returns how many blocks the kernels over frames have.
inline int NumRowBlocks(const CtcBatch& batch) {
  constexpr int kRowsPerBlock = kRowsThreads / kRowThreads;
  return (batch.num_utterances * batch.num_frames + kRowsPerBlock - 1) / kRowsPerBlock;
}

struct Larger {
  template <typename T>
  DS2_HOST_DEVICE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

struct Sum {
  template <typename T>
  DS2_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

// Combines the values of each group of threads, a power of two; the group's first one then holds
// the result.
template <typename Block, typename T, typename Operation>
DS2_DEVICE void ReduceGroups(Block& block, int group_size, T* values, Operation operation) {
  for (int half = group_size / 2; half > 0; half /= 2) {
    block.Run([&](int thread) {
      if (thread % group_size < half) {
        values[thread] = operation(values[thread], values[thread + half]);
      }
    });
  }
}

// Returns how many frames of the utterance there are to compute: none if its length is invalid.
DS2_HOST_DEVICE inline int NumFrames(const CtcBatch& batch, int utterance) {
  const int length = batch.logit_lengths[utterance];
  return length < 0 || length > batch.num_frames ? 0 : length;
}

template <typename T>
DS2_HOST_DEVICE inline const T* LogitRow(const CtcBatch& batch, int utterance, int frame) {
  return static_cast<const T*>(batch.logits) + utterance * batch.utterance_stride +
         frame * batch.frame_stride;
}

template <typename T>
DS2_HOST_DEVICE inline T* GradientRow(const CtcBatch& batch, int utterance, int frame) {
  return static_cast<T*>(batch.gradients) + utterance * batch.utterance_stride +
         frame * batch.frame_stride;
}

}  // namespace ds2

#endif  // DS2_TF_NATIVE_CTC_KERNEL_H_
