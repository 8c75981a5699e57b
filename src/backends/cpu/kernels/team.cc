// SPDX-License-Identifier: Apache-2.0
// Hands out tasks to the team's threads and waits for them.
#include "backends/cpu/kernels/team.h"

#include <omp.h>

#include <exception>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ridge::backends::cpu {
namespace {

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// A fraction of a millisecond: single-threaded kernels between parallel ones take less, and waking
// a thread costs about as much. With a tenth of it, prompts took a third longer.
inline constexpr int kSpins = 20000;

}  // namespace

void Team::gather(const std::function<void()>& body) {
  if (here_ != nullptr || omp_get_max_threads() == 1) return body();
  Team team;
  std::exception_ptr failure;
#pragma omp parallel
  {
    if (omp_get_thread_num() > 0) {
      team.serve(omp_get_thread_num());
    } else {
      team.threads_ = omp_get_num_threads();
      here_ = &team;
      try {
        body();
      } catch (...) {
        failure = std::current_exception();
      }
      here_ = nullptr;
      team.dismiss();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// A thread that waits longer than the usual gap between two kernels sleeps, since other programs
// may need the core.
uint32_t Team::next_task(uint32_t last) const {
  for (int spin = 0; spin < kSpins; ++spin) {
    const uint32_t task = task_.load(std::memory_order_acquire);
    if (task != last) return task;
    pause();
  }
  task_.wait(last, std::memory_order_acquire);
  return task_.load(std::memory_order_acquire);
}

void Team::serve(int64_t thread) {
  for (uint32_t task = 0;;) {
    task = next_task(task);
    if (body_ == nullptr) return;
    for (int64_t index = thread; index < parts_; index += threads_) part_(body_, index);
    at_work_.fetch_sub(1, std::memory_order_release);
  }
}

void Team::run(int64_t parts, const void* body, Part part) {
  body_ = body;
  part_ = part;
  parts_ = parts;
  at_work_.store(threads_ - 1, std::memory_order_relaxed);
  task_.fetch_add(1, std::memory_order_release);
  task_.notify_all();
  here_ = nullptr;  // kernels inside a part run on its thread alone
  for (int64_t index = 0; index < parts; index += threads_) part(body, index);
  here_ = this;
  for (int spin = 0; at_work_.load(std::memory_order_acquire) != 0; ++spin)
    spin < kSpins ? pause() : std::this_thread::yield();
}

void Team::dismiss() {
  body_ = nullptr;
  task_.fetch_add(1, std::memory_order_release);
  task_.notify_all();
}

}  // namespace ridge::backends::cpu
