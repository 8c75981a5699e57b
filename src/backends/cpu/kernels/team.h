// SPDX-License-Identifier: Apache-2.0
// Keeps OpenMP's threads ready while kernels follow each other: one parallel region holds them, and
// a store that they watch hands out a kernel's parts. It is not a thread pool; the threads are
// OpenMP's.
//
// A separate parallel region costs a kernel 0.8 us on two cores of an AMD EPYC (Zen 4) and 1.1 us
// on a Xeon, in virtual machines; handing out parts in this way costs 0.1 and 0.4 us. A decoded
// token has 150 such kernels.
//
// Other programs may have the cores. Then a thread does not begin its parts in time, and the leader
// runs them; a thread that waits for long sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace ridge::backends::cpu {

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
  using Part = void (*)(const void* body, int64_t index);
  void run(int64_t parts, const void* body, Part part);

 private:
  // How many parts of the current task a thread has not begun. Whoever lowers it runs the part, and
  // the task lasts until that part has ended.
  struct alignas(64) Share {
    std::atomic<int64_t> left = 0;
  };

  explicit Team(int64_t threads);
  void serve(int64_t thread, uint32_t seen);
  void run_share(int64_t thread);
  void dismiss();

  static inline thread_local Team* here_ = nullptr;

  const int64_t threads_;
  const std::unique_ptr<Share[]> shares_;
  const void* body_ = nullptr;
  Part part_ = nullptr;
  bool has_ended_ = false;
  alignas(64) std::atomic<uint32_t> task_ = 0;       // incremented with each task
  alignas(64) std::atomic<int32_t> unfinished_ = 0;  // parts of the other threads' shares
};

}  // namespace ridge::backends::cpu
