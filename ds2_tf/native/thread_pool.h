// TensorFlow's own threads for the algorithms.

#ifndef DS2_TF_NATIVE_THREAD_POOL_H_
#define DS2_TF_NATIVE_THREAD_POOL_H_

#include "ds2_tf/native/parallel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ds2 {

// Returns the intra-op threads of the device that a kernel runs on.
inline Parallel ThreadPool(tensorflow::OpKernelContext* context) {
  const auto* threads = context->device()->tensorflow_cpu_worker_threads();
  Parallel parallel;
  parallel.num_threads = threads->num_threads;
  parallel.run = [pool = threads->workers](int64_t num_tasks, const Parallel::Task& task) {
    // The cost says that each task is worth a thread of its own.
    constexpr int64_t kCyclesPerTask = 10'000'000;
    pool->ParallelFor(num_tasks, kCyclesPerTask, [&task](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) task(i);
    });
  };
  return parallel;
}

}  // namespace ds2

#endif  // DS2_TF_NATIVE_THREAD_POOL_H_
