// SPDX-License-Identifier: Apache-2.0
// Keeps OpenMP's threads ready while kernels follow each other: one parallel region holds them, and
// a store that they watch hands out a kernel's parts. It is not a thread pool; the threads are
// OpenMP's.
//
// A separate parallel region costs a kernel 0.8 us on two cores of an AMD EPYC (Zen 4) and 1.1 us
// on a Xeon, in virtual machines. A decoded token has 150 such kernels, so a task should cost no
// more than it takes to move two cache lines between cores: the task's to the thread, and the
// thread's answer back (0.2 us each between two core complexes of that EPYC, 0.05 within one).
//
// Other programs may have the cores. Then a thread does not begin its parts in time, and the leader
// runs them; a thread that waits for long sleeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace ridge::backends::cpu {

// The number of a task, and a number of its parts: all of them, or how many of a thread's share
// have begun or ended. Numbers of tasks wrap around.
struct TaskTicket {
  static constexpr int kPartBits = 24;
  static constexpr uint64_t kMostParts = (uint64_t{1} << kPartBits) - 2, kEnd = kMostParts + 1;
  uint64_t bits = 0;
  uint64_t parts() const { return bits & ((uint64_t{1} << kPartBits) - 1); }
  // Whether it is of the same task as `other`, or of a later one.
  bool is_of(TaskTicket other) const { return (bits ^ other.bits) >> kPartBits == 0; }
  bool is_after(TaskTicket other) const {
    return !is_of(other) && static_cast<int64_t>(bits - other.bits) > 0;
  }
  TaskTicket with(uint64_t parts) const { return {(bits - this->parts()) | parts}; }
  TaskTicket next(uint64_t parts) const {
    return TaskTicket{bits + (uint64_t{1} << kPartBits)}.with(parts);
  }
  friend bool operator==(TaskTicket, TaskTicket) = default;
};

class Team {
 public:
  // Calls body on this thread, and distributes the parts of its kernels over the other threads too.
  // There may be fewer threads than OpenMP promises: the leader then runs their parts.
  // body must not call kernels that open parallel regions themselves (a library's): they would find
  // no threads. Exceptions from body are rethrown. Inside another team, body is just called.
  static void gather(const std::function<void()>& body);

  // The team whose first thread is the caller; null outside of a team.
  static Team* here() { return here_; }

  // Calls part(body, index) for each part. Part i is for thread i modulo the number of threads, so
  // that a thread finds in its caches what it wrote before; the leader runs what others have not
  // begun when its own parts are done.
  using PartFunction = void (*)(const void* body, int64_t index);
  void run(int64_t parts, const void* body, PartFunction part);

  // The calling thread reads this next: it prefetches it into L2 while it waits for a task, or for
  // other threads to end their parts. Replaces what was set before.
  static void read_when_idle(const std::byte* data, int64_t bytes) { idle_reads_ = {data, bytes}; }

 private:
  using Ticket = TaskTicket;
  // Written by the leader, read by all: in one cache line, which moves once per task.
  struct alignas(64) Task {
    std::atomic<Ticket> ticket = {};
    const void* body = nullptr;
    PartFunction part = nullptr;
  };
  // Written by the thread. The leader writes `begun` only when it takes the part of a thread that
  // is late, so that a thread on time finds it in its own cache.
  struct alignas(64) Begun {
    std::atomic<Ticket> ticket = {};
  };
  struct alignas(64) Ended {
    std::atomic<Ticket> ticket = {};
  };
  struct Thread {
    Begun begun;
    Ended ended;
    uint64_t taken = 0;  // by the leader, of the current task
  };
  struct IdleReads {
    const std::byte* data;
    int64_t bytes;
    void prefetch_some();
  };

  explicit Team(int64_t threads);
  void serve(int64_t thread, Ticket seen);
  void run_share(int64_t thread, Ticket task);
  bool begin_part(int64_t thread, Ticket task, int64_t& index);
  int64_t share_of(int64_t thread, Ticket task) const;
  bool has_ended(int64_t thread, Ticket task) const;
  void await_shares(Ticket task);
  Ticket hand_out(uint64_t parts);
  void publish(std::atomic<Ticket>& ticket, Ticket value);
  void wake_after_fence(std::atomic<Ticket>& ticket);
  void sleep_while(const std::atomic<Ticket>& ticket, Ticket seen);
  template <typename IsDue>
  void wait_until(const std::atomic<Ticket>& ticket, const IsDue& is_due);
  template <typename IsDue>
  static bool spin(int spins, const IsDue& is_due);

  static inline thread_local Team* here_ = nullptr;
  static inline thread_local IdleReads idle_reads_{nullptr, 0};

  const int64_t threads_;
  const std::unique_ptr<Thread[]> each_;
  Task task_;
  alignas(64) std::atomic<int32_t> sleepers_ = 0;
};

}  // namespace ridge::backends::cpu
