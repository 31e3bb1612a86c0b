// Threads for the algorithms, where there is no TensorFlow to bring them.

#ifndef DS2_TF_TESTS_NATIVE_THREADS_H_
#define DS2_TF_TESTS_NATIVE_THREADS_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "ds2_tf/native/parallel.h"

namespace ds2 {

// Returns so many threads, started anew for each piece of work.
inline Parallel Threads(int num_threads) {
  Parallel parallel;
  parallel.num_threads = num_threads;
  parallel.run = [num_threads](int64_t num_tasks, const Parallel::Task& task) {
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      for (int64_t i; (i = next++) < num_tasks;) task(i);
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  };
  return parallel;
}

}  // namespace ds2

#endif  // DS2_TF_TESTS_NATIVE_THREADS_H_
