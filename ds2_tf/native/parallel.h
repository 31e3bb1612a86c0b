// How the algorithms share work among threads that somebody else owns.

#ifndef DS2_TF_NATIVE_PARALLEL_H_
#define DS2_TF_NATIVE_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace ds2 {

// The caller's threads. No result depends on their number, nor on which thread runs which task.
struct Parallel {
  using Task = std::function<void(int64_t)>;

  // How many tasks can run at once: a hint for cutting the work.
  int num_threads = 1;

  // Runs task(0) ... task(num_tasks - 1) in any order and returns when all are done.
  std::function<void(int64_t num_tasks, const Task& task)> run =
      [](int64_t num_tasks, const Task& task) {
        for (int64_t i = 0; i < num_tasks; ++i) task(i);
      };
};

}  // namespace ds2

#endif  // DS2_TF_NATIVE_PARALLEL_H_
