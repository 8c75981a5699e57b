// SPDX-License-Identifier: Apache-2.0
// Hands out tasks to the team's threads and waits for them.
#include "backends/cpu/kernels/team.h"

#include <omp.h>

#include <chrono>
#include <exception>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ridge::backends::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Single-threaded kernels between parallel ones take less, and waking a thread costs about as much.
// With a tenth of it, prompts took a third longer.
constexpr auto kSpinTime = std::chrono::microseconds(200);
// The threads of an idle machine end their parts within less of each other.
constexpr int kPatience = 64;
constexpr int kSpinsPerLook = 64;  // at the clock

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

template <typename IsDue>
bool spin(int spins, const IsDue& is_due) {
  for (int i = 0; i < spins; ++i) {
    if (is_due()) return true;
    pause();
  }
  return false;
}

// Returns when is_due(value). A thread that waits longer than the usual gap between two kernels
// sleeps: another program has the core of the thread that it waits for, and that thread, or the
// program, can move to this core only if it is idle.
template <typename T, typename IsDue>
void wait_until(const std::atomic<T>& value, const IsDue& is_due) {
  const auto is_due_now = [&] { return is_due(value.load(std::memory_order_acquire)); };
  if (spin(kSpinsPerLook, is_due_now)) return;
  const Clock::time_point end = Clock::now() + kSpinTime;
  do {
    if (spin(kSpinsPerLook, is_due_now)) return;
  } while (Clock::now() < end);
  for (T seen; !is_due(seen = value.load(std::memory_order_acquire));)
    value.wait(seen, std::memory_order_acquire);
}

}  // namespace

Team::Team(int64_t threads) : threads_(threads), shares_(new Share[static_cast<size_t>(threads)]) {}

void Team::gather(const std::function<void()>& body) {
  const int threads = omp_get_max_threads();
  if (here_ != nullptr || threads == 1) return body();
  static thread_local std::unique_ptr<Team> kept;  // a decoded token allocates nothing
  if (kept == nullptr || kept->threads_ != threads) kept.reset(new Team(threads));
  Team* const team = kept.get();
  team->has_ended_ = false;
  const uint32_t begin = team->task_.load(std::memory_order_relaxed);
  std::exception_ptr failure;
#pragma omp parallel
  {
    if (omp_get_thread_num() > 0) {
      team->serve(omp_get_thread_num(), begin);
    } else {
      here_ = team;
      try {
        body();
      } catch (...) {
        failure = std::current_exception();
      }
      here_ = nullptr;
      team->dismiss();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void Team::serve(int64_t thread, uint32_t seen) {
  for (;;) {
    wait_until(task_, [seen](uint32_t task) { return task != seen; });
    seen = task_.load(std::memory_order_acquire);
    if (has_ended_) return;
    run_share(thread);
  }
}

// The parts of a thread's share that have not begun. A thread that comes late may find the share of
// a newer task, which is as good.
void Team::run_share(int64_t thread) {
  std::atomic<int64_t>& left = shares_[static_cast<size_t>(thread)].left;
  for (int64_t before = left.load(std::memory_order_relaxed); before > 0;) {
    if (!left.compare_exchange_weak(before, before - 1, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      continue;
    part_(body_, thread + --before * threads_);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    before = left.load(std::memory_order_relaxed);
  }
}

void Team::run(int64_t parts, const void* body, Part part) {
  body_ = body;
  part_ = part;
  const int64_t own = (parts + threads_ - 1) / threads_;
  unfinished_.store(static_cast<int32_t>(parts - own), std::memory_order_relaxed);
  for (int64_t thread = 1; thread < threads_; ++thread)
    shares_[static_cast<size_t>(thread)].left.store((parts - thread + threads_ - 1) / threads_,
                                                    std::memory_order_release);
  task_.fetch_add(1, std::memory_order_release);
  task_.notify_all();
  here_ = nullptr;  // kernels inside a part run on its thread alone
  for (int64_t index = 0; index < parts; index += threads_) part(body, index);
  const auto is_finished = [](int32_t unfinished) { return unfinished == 0; };
  if (!spin(kPatience, [&] { return is_finished(unfinished_.load(std::memory_order_acquire)); })) {
    for (int64_t thread = 1; thread < threads_; ++thread) run_share(thread);
    wait_until(unfinished_, is_finished);
  }
  here_ = this;
}

void Team::dismiss() {
  has_ended_ = true;
  task_.fetch_add(1, std::memory_order_release);
  task_.notify_all();
}

}  // namespace ridge::backends::cpu
