// SPDX-License-Identifier: Apache-2.0
// Creates OpenMP's threads before they are needed, and changes their number for a while.
#pragma once

namespace ridge {
inline namespace base {

// Creates the omp_get_max_threads() threads of OpenMP's team. Throws an out-of-memory Error if the
// system has no memory for them: OpenMP itself would end the program when the first parallel region
// begins.
void start_openmp_threads();

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
