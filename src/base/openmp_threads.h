// SPDX-License-Identifier: Apache-2.0
// Creates OpenMP's threads before they are needed, keeps them on processors of their own, and
// changes their number for a while.
#pragma once

#include <span>
#include <vector>

namespace ridge {
inline namespace base {

// Creates the omp_get_max_threads() threads of OpenMP's team, each on a processor of its own.
// Throws an out-of-memory Error if the system has no memory for them: OpenMP itself would end the
// program when the first parallel region begins.
void start_openmp_threads();

// The processors that the calling thread may use, in order.
std::vector<int> allowed_processors();

// Says where threads that run on the processors `on` move so that each has one of its own: for each
// thread a processor of `allowed` that no thread runs on, or -1 if it stays, because it came first
// on its processor or because none is free.
std::vector<int> choose_free_processors(std::span<const int> on, std::span<const int> allowed);

// Moves those threads of OpenMP's team that run on the processor of another one to processors that
// none of them uses, and returns how many it moved. They may go elsewhere afterwards. Linux wakes a
// thread on the processor of its waker when it takes the others for busy, and finds that out only
// after 10 to 60 ms: until then, a parallel region takes as long as a thread spins before it sleeps
// (see limit_spinning()), 158 us in place of 4 for a GEMM of 64 x 64 x 64.
int spread_openmp_threads();

// While it lives, the calling thread's parallel regions have this many threads; 0 changes nothing.
class OpenmpThreads {
 public:
  explicit OpenmpThreads(int threads);
  ~OpenmpThreads();
  OpenmpThreads(const OpenmpThreads&) = delete;
  OpenmpThreads& operator=(const OpenmpThreads&) = delete;

 private:
  int before_;
};

}  // namespace base
}  // namespace ridge
