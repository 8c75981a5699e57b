// SPDX-License-Identifier: Apache-2.0
// Hands out tasks to the team's threads and waits for them.
#include "backends/cpu/kernels/team.h"

#include <omp.h>

#include <chrono>
#include <exception>

#include "base/error.h"

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

}  // namespace

// Few lines at a time: a task should not wait until the core has room for more requests.
void Team::IdleReads::prefetch_some() {
  constexpr int64_t kLine = 64, kLines = 4;
  for (int64_t i = 0; i < kLines && bytes > 0; ++i, data += kLine, bytes -= kLine)
    __builtin_prefetch(data, 0, 2);
}

// Stores a ticket that others wait for, without waiting until their cores have given up its line. A
// thread that is about to sleep may miss it until wake_after_fence().
void Team::publish(std::atomic<Ticket>& ticket, Ticket value) {
  ticket.store(value, std::memory_order_release);
  if (sleepers_.load(std::memory_order_relaxed) > 0) ticket.notify_all();
}

void Team::wake_after_fence(std::atomic<Ticket>& ticket) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_relaxed) > 0) ticket.notify_all();
}

void Team::sleep_while(const std::atomic<Ticket>& ticket, Ticket seen) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  ticket.wait(seen, std::memory_order_seq_cst);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

template <typename IsDue>
bool Team::spin(int spins, const IsDue& is_due) {
  IdleReads& reads = idle_reads_;
  for (int i = 0; i < spins; ++i) {
    if (is_due()) return true;
    if (reads.bytes > 0)
      reads.prefetch_some();
    else
      pause();
  }
  return false;
}

// Returns when is_due(value). A thread that waits longer than the usual gap between two kernels
// sleeps: another program has the core of the thread that it waits for, and that thread, or the
// program, can move to this core only if it is idle.
template <typename IsDue>
void Team::wait_until(const std::atomic<Ticket>& ticket, const IsDue& is_due) {
  const auto is_due_now = [&] { return is_due(ticket.load(std::memory_order_acquire)); };
  if (spin(kSpinsPerLook, is_due_now)) return;
  const Clock::time_point end = Clock::now() + kSpinTime;
  do {
    if (spin(kSpinsPerLook, is_due_now)) return;
  } while (Clock::now() < end);
  for (Ticket seen; !is_due(seen = ticket.load(std::memory_order_acquire));)
    sleep_while(ticket, seen);
}

Team::Team(int64_t threads) : threads_(threads), each_(new Thread[static_cast<size_t>(threads)]) {}

void Team::gather(const std::function<void()>& body) {
  const int threads = omp_get_max_threads();
  if (here_ != nullptr || threads == 1) return body();
  static thread_local std::unique_ptr<Team> kept;  // a decoded token allocates nothing
  if (kept == nullptr || kept->threads_ != threads) kept.reset(new Team(threads));
  Team* const team = kept.get();
  const Ticket begin = team->task_.ticket.load(std::memory_order_relaxed);
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
      team->hand_out(Ticket::kEnd);
      team->wake_after_fence(team->task_.ticket);
    }
    read_when_idle(nullptr, 0);
  }
  if (failure) std::rethrow_exception(failure);
}

Team::Ticket Team::hand_out(uint64_t parts) {
  const Ticket task = task_.ticket.load(std::memory_order_relaxed).next(parts);
  publish(task_.ticket, task);
  return task;
}

void Team::serve(int64_t thread, Ticket seen) {
  for (;;) {
    wait_until(task_.ticket, [seen](Ticket task) { return task != seen; });
    seen = task_.ticket.load(std::memory_order_acquire);
    if (seen.parts() == Ticket::kEnd) return;
    run_share(thread, seen);
  }
}

// The number of parts that are for a thread.
int64_t Team::share_of(int64_t thread, Ticket task) const {
  return (static_cast<int64_t>(task.parts()) - thread + threads_ - 1) / threads_;
}

// Takes the next part of a thread's share. False if there is none: also if the thread is so late
// that the leader has gone on.
bool Team::begin_part(int64_t thread, Ticket task, int64_t& index) {
  std::atomic<Ticket>& begun = each_[static_cast<size_t>(thread)].begun.ticket;
  Ticket before = begun.load(std::memory_order_relaxed);
  for (;;) {
    if (before.is_after(task)) return false;
    const uint64_t parts = before.is_of(task) ? before.parts() : 0;
    if (static_cast<int64_t>(parts) >= share_of(thread, task)) return false;
    if (!begun.compare_exchange_weak(before, task.with(parts + 1), std::memory_order_acq_rel,
                                     std::memory_order_relaxed))
      continue;
    index = thread + static_cast<int64_t>(parts) * threads_;
    return true;
  }
}

// The task's body may be read only after a part has begun: the leader waits for that part.
void Team::run_share(int64_t thread, Ticket task) {
  std::atomic<Ticket>& ended = each_[static_cast<size_t>(thread)].ended.ticket;
  uint64_t parts = 0;
  for (int64_t index = 0; begin_part(thread, task, index);) {
    task_.part(task_.body, index);
    publish(ended, task.with(++parts));
  }
  if (parts > 0) wake_after_fence(ended);
}

bool Team::has_ended(int64_t thread, Ticket task) const {
  const Thread& each = each_[static_cast<size_t>(thread)];
  const Ticket ended = each.ended.ticket.load(std::memory_order_acquire);
  const uint64_t parts = ended.is_of(task) ? ended.parts() : 0;
  return static_cast<int64_t>(parts + each.taken) >= share_of(thread, task);
}

void Team::await_shares(Ticket task) {
  int64_t thread = 1;
  const auto all_have_ended = [&] {
    while (thread < threads_ && has_ended(thread, task)) ++thread;
    return thread == threads_;
  };
  if (spin(kPatience, all_have_ended)) return;
  for (int64_t late = thread; late < threads_; ++late) {
    for (int64_t index = 0; begin_part(late, task, index);) {
      task_.part(task_.body, index);
      ++each_[static_cast<size_t>(late)].taken;
    }
  }
  for (; thread < threads_; ++thread)
    wait_until(each_[static_cast<size_t>(thread)].ended.ticket,
               [&](Ticket) { return has_ended(thread, task); });
  for (thread = 1; thread < threads_; ++thread) each_[static_cast<size_t>(thread)].taken = 0;
}

void Team::run(int64_t parts, const void* body, PartFunction part) {
  RIDGE_CHECK(parts >= 0 && static_cast<uint64_t>(parts) <= Ticket::kMostParts, "{} parts", parts);
  task_.body = body;
  task_.part = part;
  const Ticket task = hand_out(static_cast<uint64_t>(parts));
  here_ = nullptr;  // kernels inside a part run on its thread alone
  for (int64_t index = 0; index < parts; index += threads_) part(body, index);
  wake_after_fence(task_.ticket);
  await_shares(task);
  here_ = this;
}

}  // namespace ridge::backends::cpu
