// SPDX-License-Identifier: Apache-2.0
// The calling thread works too, so that work goes on where no other thread can be created.
#include "base/in_parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/openmp_threads.h"

namespace ridge {
inline namespace base {

void in_parallel(int64_t count, const std::function<void(int64_t)>& work) {
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(count));
  std::atomic<bool> has_thrown = false;
  std::atomic<int64_t> next = 0;
  const int threads = omp_get_max_threads();
  const auto take = [&](int64_t i) {
    try {
      work(i);
    } catch (...) {
      thrown[static_cast<size_t>(i)] = std::current_exception();
      has_thrown = true;
    }
  };
  const auto take_all = [&] {
    const OpenmpThreads same(threads);
    for (int64_t i = next++; i < count && !has_thrown; i = next++) take(i);
  };
  {
    std::vector<std::jthread> others;
    try {
      while (std::ssize(others) + 1 < std::min<int64_t>(count, threads))
        others.emplace_back(take_all);
    } catch (const std::system_error&) {  // no more threads
    }
    take_all();
  }
  for (const std::exception_ptr& each : thrown)
    if (each) std::rethrow_exception(each);
}

}  // namespace base
}  // namespace ridge
