// SPDX-License-Identifier: Apache-2.0
// Creates as many threads of our own first, because their failure can be caught.
#include "base/openmp_threads.h"

#include <omp.h>

#include <cstdlib>
#include <future>
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

}  // namespace

void start_openmp_threads() {
  const int threads = omp_get_max_threads();
  if (threads <= 1) return;
  try {
    try_threads(threads - 1);
  } catch (const std::system_error& error) {
    throw memory_error("[threads] expected memory for {} threads, got: {}", threads,
                       error.code().message());
  }
#pragma omp parallel
  {}
}

OpenmpThreads::OpenmpThreads(int threads) : before_(omp_get_max_threads()) {
  if (threads > 0) omp_set_num_threads(threads);
}

OpenmpThreads::~OpenmpThreads() { omp_set_num_threads(before_); }

}  // namespace base
}  // namespace ridge
