// SPDX-License-Identifier: Apache-2.0
// The static split of a kernel's work among OpenMP threads. The result of a part depends only on
// the shape and the thread count, never on which thread runs it, so runs with the same count have
// the same bits.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/team.h"

namespace ridge::backends::cpu {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// Below this size a kernel stays on the calling thread: 128 KiB take about 3 us at the 45 GB/s of
// one core; a parallel region whose threads are already spinning takes 1 to 2 us.
inline constexpr int64_t kParallelBytes = 128 << 10;

// Outputs of at least this size bypass the caches. Timed on a 32 MiB L3, for a kernel together with
// the reader of its output: with 8 MiB of output cached stores were faster (1.5 against 4.8 ms per
// 128 MiB), at 32 MiB streaming was (5.0 against 5.7), at 128 MiB by a third.
inline constexpr int64_t kStreamBytes = 32 << 20;

// The bytes of `elements` elements of T.
template <typename T>
constexpr int64_t bytes_of(int64_t elements) {
  return elements * static_cast<int64_t>(sizeof(T));
}

// The number of parts for work of `bytes`: 1 or the number of threads (OpenMP rebuilds a team that
// changes its size).
inline int64_t parts_for(int64_t bytes) {
  return bytes < kParallelBytes ? 1 : omp_get_max_threads();
}

// The index-th of `parts` near-equal ranges of [0, count), cut at multiples of `granule`.
inline Range part_of(int64_t count, int64_t parts, int64_t index, int64_t granule = 1) {
  int64_t granules = (count + granule - 1) / granule;
  int64_t each = granules / parts;
  int64_t more = granules % parts;  // the first `more` parts have one more granule
  int64_t begin = index * each + std::min(index, more);
  int64_t end = begin + each + (index < more ? 1 : 0);
  return {std::min(begin * granule, count), std::min(end * granule, count)};
}

// Calls body(index) for each part, in parallel: on the team that this thread leads, or in a new
// parallel region.
template <typename Body>
void for_each_part(int64_t parts, const Body& body) {
  if (parts == 1) {
    body(0);
    return;
  }
  if (Team* team = Team::here()) {
    team->run(parts, &body,
              [](const void* each, int64_t index) { (*static_cast<const Body*>(each))(index); });
    return;
  }
#pragma omp parallel for schedule(static, 1)
  for (int64_t index = 0; index < parts; ++index) body(index);
}

// Calls body(range) in parallel for `parts` near-equal ranges of [0, count), without empty ones.
template <typename Body>
void for_each_range(int64_t count, int64_t parts, const Body& body) {
  for_each_part(parts, [&](int64_t index) {
    const Range range = part_of(count, parts, index);
    if (range.begin < range.end) body(range);
  });
}

}  // namespace ridge::backends::cpu
