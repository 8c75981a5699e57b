// SPDX-License-Identifier: Apache-2.0
// Two output folders run by run and op by op, with differences separated from noise.
#pragma once

#include <string>
#include <vector>

#include "record/summary_file.h"

namespace ridge::record {

// One quantity in both runs; a run without it has no samples.
struct Change {
  std::string key;
  Summary before, after;

  bool is_one_sided() const { return before.count == 0 || after.count == 0; }
  double ratio() const { return record::ratio(after.median, before.median); }
  double difference() const { return after.median - before.median; }
  // "faster" or "slower", with a "?" if a side has too few samples for an interval of 95%; "noise",
  // "only in A" or "only in B".
  std::string verdict() const;
};

struct RunChange {
  const SummaryRun* before = nullptr;
  const SummaryRun* after = nullptr;
  Change step;
  std::vector<Change> ops;    // sorted by the larger of both times
  std::vector<Change> kinds;  // kinds of operations, likewise; empty unless both folders have them

  // Whether the runs have mostly the same ops, so that these line up.
  bool has_same_ops() const;
};

// Pairs the runs with the same setting. If there are none and a folder has one run, such as an
// imported one, that is paired with each run of the same work, or with the only run of the other
// folder. The folders must outlive the result.
std::vector<RunChange> run_changes(const SummaryFile& before, const SummaryFile& after);

}  // namespace ridge::record
