// SPDX-License-Identifier: Apache-2.0
// Collects the times of plain and instrumented steps, and adds them to a record.
#pragma once

#include <span>
#include <vector>

#include "record/run_record.h"
#include "record/step_record.h"

namespace ridge::measure {

class Measurement {
 public:
  // A step without an instrument. `is_paired`: it is compared with instrumented steps to find the
  // instrument's overhead.
  void add_plain(double wall_ns, bool is_paired);
  void add_instrumented(record::InstrumentedStep step);

  const std::vector<double>& plain_ns() const { return plain_ns_; }

  // Fills in the times of a record that already has its counts. `graphs`: from count_graphs.
  void fill(std::span<const record::PredictedGraph> graphs, record::RunRecord& record) const;

 private:
  std::vector<double> plain_ns_;
  std::vector<double> paired_ns_;
  std::vector<record::InstrumentedStep> instrumented_;
};

}  // namespace ridge::measure
