// SPDX-License-Identifier: Apache-2.0
// The steps of one thing under the clock, plain and instrumented, and what they add to a record.
#pragma once

#include <span>
#include <vector>

#include "record/run_record.h"
#include "record/step_record.h"

namespace ridge::measure {

class Measurement {
 public:
  // A step that nothing watched. `is_paired`: those that what instrumenting costs is told
  // from.
  void add_plain(double wall_ns, bool is_paired);
  // `wall_ns` without what the instrument took.
  void add_instrumented(double wall_ns, std::vector<record::ProfiledRun> runs);

  size_t plain_steps() const { return plain_ns_.size(); }
  const std::vector<double>& plain_ns() const { return plain_ns_; }

  // Fills the times of a record that has its counts already; `graphs` as count_graphs returned
  // them.
  void fill(std::span<const record::PredictedGraph> graphs, record::RunRecord& record) const;

 private:
  std::vector<double> plain_ns_;
  std::vector<double> paired_ns_;
  std::vector<record::InstrumentedStep> instrumented_;
};

}  // namespace ridge::measure
