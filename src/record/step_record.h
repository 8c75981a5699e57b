// SPDX-License-Identifier: Apache-2.0
// From the clock readings of instrumented steps to the records of their nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/run_record.h"

namespace ridge::record {

// One graph of the program as it was run.
struct MeasuredGraph {
  std::string name;
  int64_t repeat = 1;
  const Graph* graph = nullptr;
  const std::vector<cost::NodeCost>* costs = nullptr;
  std::vector<cost::NodePrediction>
      predictions;  // one per node, or none where no ceilings are known
};

// One step: its runs in the program's order, each
// graph `repeat` times, and the wall time around them.
struct InstrumentedStep {
  std::vector<ProfiledRun> runs;
  double wall_ns = 0;
};

StepRecord make_step_record(std::span<const MeasuredGraph> graphs,
                            std::span<const InstrumentedStep> steps);

}  // namespace ridge::record
