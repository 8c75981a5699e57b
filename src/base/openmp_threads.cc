// SPDX-License-Identifier: Apache-2.0
// Creates as many threads of our own first, because their failure can be caught.
#include "base/openmp_threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <iterator>
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

// Moves the calling thread to the processor. It may leave it again at once.
bool move_to_processor(int cpu) {
  cpu_set_t allowed, only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
         ::sched_setaffinity(0, sizeof(only), &only) == 0 &&
         ::sched_setaffinity(0, sizeof(allowed), &allowed) == 0;
}

}  // namespace

std::vector<int> allowed_processors() {
  cpu_set_t allowed;
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) processors.push_back(cpu);
  return processors;
}

std::vector<int> choose_free_processors(std::span<const int> on, std::span<const int> allowed) {
  std::vector<int> free;
  std::ranges::copy_if(allowed, std::back_inserter(free),
                       [&](int cpu) { return std::ranges::count(on, cpu) == 0; });
  std::vector<int> chosen(on.size(), -1);
  size_t used = 0;
  for (size_t thread = 0; thread < on.size(); ++thread) {
    const bool shares = std::ranges::count(on.first(thread), on[thread]) > 0;
    if (shares && used < free.size()) chosen[thread] = free[used++];
  }
  return chosen;
}

int spread_openmp_threads() {
  std::vector<int> on(static_cast<size_t>(omp_get_max_threads()), -1);
  int moved = 0;
#pragma omp parallel reduction(+ : moved)
  {
    const size_t own = static_cast<size_t>(omp_get_thread_num());
    on[own] = ::sched_getcpu();
#pragma omp barrier
    const int cpu = choose_free_processors(on, allowed_processors())[own];
    if (cpu >= 0 && move_to_processor(cpu)) moved = 1;
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
