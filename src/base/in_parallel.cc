// SPDX-License-Identifier: Apache-2.0
// The calling thread works too, so that work goes on where no other thread can be created.
#include "base/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace ridge {
inline namespace base {

void in_parallel(int64_t count, const std::function<void(int64_t)>& work) {
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(count));
  std::atomic<int64_t> next = 0;
  const auto take = [&](int64_t i) {
    try {
      work(i);
    } catch (...) {
      thrown[static_cast<size_t>(i)] = std::current_exception();
    }
  };
  const auto take_all = [&] {
    for (int64_t i = next++; i < count; i = next++) take(i);
  };
  {
    std::vector<std::jthread> others;
    const int64_t threads = std::min<int64_t>(count, std::thread::hardware_concurrency());
    try {
      while (std::ssize(others) + 1 < threads) others.emplace_back(take_all);
    } catch (const std::system_error&) {  // no more threads
    }
    take_all();
  }
  for (const std::exception_ptr& each : thrown)
    if (each) std::rethrow_exception(each);
}

}  // namespace base
}  // namespace ridge
