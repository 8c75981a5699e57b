// SPDX-License-Identifier: Apache-2.0
// Times work that OpenMP's threads share.
#pragma once

#include "base/clock.h"
#include "base/openmp_threads.h"

namespace ridge {
inline namespace base {

// The time that work() takes once no two threads share a processor.
template <typename Work>
double timed_ns(const Work& work) {
  spread_openmp_threads();
  const double begin = now_ns();
  work();
  return now_ns() - begin;
}

}  // namespace base
}  // namespace ridge
