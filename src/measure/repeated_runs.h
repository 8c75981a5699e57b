// SPDX-License-Identifier: Apache-2.0
// Repeats one operation, plain and instrumented in turn, until a time has passed: a prefill, a
// decode step, or a graph alone. The record that its times go to belongs to the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backends/backend.h"
#include "measure/hardware_counters.h"
#include "measure/measurement.h"
#include "record/profile.h"
#include "record/run_record.h"

namespace ridge::measure {

// The number of repeats of a measurement: until the time budget is spent, or three times that for
// six plain ones, within these bounds.
struct Repeats {
  int64_t least = 4;
  int64_t most = 40;
  double budget_ns = 1e9;
  // Whether it is true on any of the ranks that measure together, each of which asks as often.
  std::function<bool(bool here)> any = [](bool here) { return here; };
};

// The operation that is repeated. Both forms end only when the work is done.
struct RepeatedOperation {
  std::function<void()> once;
  std::function<std::vector<record::ProfiledRun>()> profiled;  // the same, with the runs' times
};

class RepeatedRuns {
 public:
  RepeatedRuns(backends::Backend& backend, RepeatedOperation operation)
      : instrument_(backend.instrument()), operation_(std::move(operation)) {}

  // Runs a warm-up, then plain and profiled runs. Returns false as soon as `is_stopped`,
  // which is asked before each run and has one answer on all ranks, says so.
  bool run(const Repeats& repeats, const std::function<bool()>& is_stopped);

  const Measurement& measurement() const { return measurement_; }
  const record::HardwareCounts& counts() const { return counts_; }

 private:
  double plain_ns();
  record::InstrumentedStep instrumented(int64_t index);

  backends::Instrument* instrument_;  // null: a clock around each launch
  RepeatedOperation operation_;
  Measurement measurement_;
  HardwareCounters hardware_;
  record::HardwareCounts counts_;
};

}  // namespace ridge::measure
