// SPDX-License-Identifier: Apache-2.0
// The ranks of one run, of which each has a trace: how long they communicate, how much of that
// other kernels hide, and how long they wait for each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "record/figures.h"
#include "record/import/imported_steps.h"

namespace ridge::record {

// Sums over the steps.
struct RankTimes {
  int64_t rank = 0, step_ns = 0;
  int64_t communication_ns = 0;  // kernels of collectives
  int64_t overlapped_ns = 0;     // the part of it during which other kernels run
  // A collective ends on all ranks together, so one that takes longer than on the last rank waited.
  int64_t waiting_ns = 0;
};

template <class See>
void figures(const See& see, const RankTimes& r) {
  see("rank", r.rank), see({"step_ns", "ns", "all steps"}, r.step_ns);
  see({"communication_ns", "ns", "kernels of collectives"}, r.communication_ns);
  see({"overlapped_ns", "ns", "the part of it during which other kernels run"}, r.overlapped_ns);
  see({"waiting_ns", "ns", "the part of it beyond the same collectives of the rank that came last"},
      r.waiting_ns);
}

// The traces in a folder; none for a file. Sorted by name.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& folder);

// Collectives are paired by their order within a step; where the ranks have not equally many,
// nobody is known to wait.
std::vector<RankTimes> rank_times(std::span<const ImportedSteps> ranks);

}  // namespace ridge::record
