// SPDX-License-Identifier: Apache-2.0
// Keeps OpenMP's threads ready while kernels follow each other: one parallel region holds them, and
// a store that they watch hands out a kernel's parts. It is not a thread pool; the threads are
// OpenMP's.
//
// A separate parallel region costs a kernel 0.8 us on two cores of an AMD EPYC (Zen 4) and 1.1 us
// on a Xeon, in virtual machines; handing out parts in this way costs 0.1 and 0.4 us. A decoded
// token has 150 such kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace ridge::backends::cpu {

class Team {
 public:
  // Calls body on this thread, and distributes the parts of its kernels over the other threads too.
  // body must not call kernels that open parallel regions themselves (a library's): they would find
  // no threads. Exceptions from body are rethrown. Inside another team, body is just called.
  static void gather(const std::function<void()>& body);

  // The team whose first thread is the caller; null outside of a team.
  static Team* here() { return here_; }

  // Calls part(body, index) for each part; part i runs on thread i modulo the number of threads.
  using Part = void (*)(const void* body, int64_t index);
  void run(int64_t parts, const void* body, Part part);

 private:
  void serve(int64_t thread);
  void dismiss();
  uint32_t next_task(uint32_t last) const;

  static inline thread_local Team* here_ = nullptr;

  int64_t threads_ = 1;
  const void* body_ = nullptr;  // null: the team ends
  Part part_ = nullptr;
  int64_t parts_ = 0;
  alignas(64) std::atomic<uint32_t> task_ = 0;    // incremented with each task
  alignas(64) std::atomic<int64_t> at_work_ = 0;  // threads that have not finished the task
};

}  // namespace ridge::backends::cpu
