// SPDX-License-Identifier: Apache-2.0
// Creates as many threads of our own first, because their failure can be caught.
#include "base/openmp_threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ridge {
inline namespace base {
namespace {

// Throws unless `threads` threads can exist at the same time. Each allocates, since malloc reserves
// 64 MiB of addresses for a new thread, which OpenMP's threads then take over.
void try_threads(int threads) {
  std::vector<std::jthread> all;
  std::promise<void> end;  // destroyed first: the threads then return
  const std::shared_future<void> ended = end.get_future().share();
  for (int i = 0; i < threads; ++i)
    all.emplace_back([ended] {
      std::free(std::malloc(1));  // NOLINT: new and delete of nothing may be left out
      ended.wait();
    });
}

// Moves the calling thread to the processor of this number among those that it may use and that are
// not in `taken`. It may leave it again at once.
bool move_to_free_processor(std::span<const int> taken, int64_t number) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || std::ranges::count(taken, cpu) > 0 || number-- > 0) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    return ::sched_setaffinity(0, sizeof(only), &only) == 0 &&
           ::sched_setaffinity(0, sizeof(allowed), &allowed) == 0;
  }
  return false;
}

}  // namespace

int spread_openmp_threads() {
  std::vector<int> on(static_cast<size_t>(omp_get_max_threads()), -1);
  int moved = 0;
#pragma omp parallel reduction(+ : moved)
  {
    const int64_t own = omp_get_thread_num();
    on[static_cast<size_t>(own)] = ::sched_getcpu();
#pragma omp barrier
    const auto shares = [&](int64_t thread) {
      const auto end = on.begin() + thread;
      return std::find(on.begin(), end, *end) != end;
    };
    int64_t before = 0;  // threads that choose first
    for (int64_t thread = 0; thread < own; ++thread) before += shares(thread) ? 1 : 0;
    if (shares(own) && move_to_free_processor(on, before)) moved = 1;
  }
  return moved;
}

void start_openmp_threads() {
  const int threads = omp_get_max_threads();
  if (threads <= 1) return;
  try {
    try_threads(threads - 1);
  } catch (const std::system_error& error) {
    throw memory_error("[threads] expected memory for {} threads, got: {}", threads,
                       error.code().message());
  }
  spread_openmp_threads();  // its parallel region creates OpenMP's
}

OpenmpThreads::OpenmpThreads(int threads) : before_(omp_get_max_threads()) {
  if (threads > 0) omp_set_num_threads(threads);
}

OpenmpThreads::~OpenmpThreads() { omp_set_num_threads(before_); }

}  // namespace base
}  // namespace ridge
