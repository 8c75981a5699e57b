// SPDX-License-Identifier: Apache-2.0
// OpenMP's threads kept at hand while kernels follow each other: one parallel region holds them,
// and a kernel's parts are handed out by a store that they watch. Not a pool: threads are OpenMP's.
//
// A region of its own takes a kernel 0.8 us on two cores of an AMD EPYC (Zen 4) and 1.1 us on a
// Xeon, in virtual machines; parts handed out so 0.1 and 0.4. A decoded token has 150 such kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace ridge::backends::cpu {

class Team {
 public:
  // Calls body on this thread, and gives the parts of its kernels to the others too. Kernels that
  // open parallel regions of their own (a library's) would find no threads: body must call none.
  // What body throws is thrown on. Inside another team it is just called.
  static void gather(const std::function<void()>& body);

  // The team whose first thread calls; null outside of one.
  static Team* here() { return here_; }

  // Calls run(body, index) for each part, part i on thread i modulo their number.
  using Part = void (*)(const void* body, int64_t index);
  void run(int64_t parts, const void* body, Part part);

 private:
  void serve(int64_t thread);
  void dismiss();
  uint32_t next_task(uint32_t last) const;

  static inline thread_local Team* here_ = nullptr;

  int64_t threads_ = 1;
  const void* body_ = nullptr;  // null: nothing comes any more
  Part part_ = nullptr;
  int64_t parts_ = 0;
  alignas(64) std::atomic<uint32_t> task_ = 0;    // counts up with each
  alignas(64) std::atomic<int64_t> at_work_ = 0;  // threads that have not ended the task
};

}  // namespace ridge::backends::cpu
