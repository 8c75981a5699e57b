// SPDX-License-Identifier: Apache-2.0
// Builds the node records of a run from the clock readings of its instrumented steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost/costed_graph.h"
#include "record/run_record.h"

namespace ridge::record {

// A graph of the program as it was run, with its predictions.
struct PredictedGraph {
  cost::ProgramGraph run;
  std::vector<cost::NodePrediction> predictions;  // one per node, or none without ceilings
};

// One step: its runs in program order, each graph `repeat` times, and the wall time around them.
struct InstrumentedStep {
  std::vector<ProfiledRun> runs;
  double wall_ns = 0;   // without the time that the instrument took
  double begin_ns = 0;  // on the host's clock
  int64_t index = 0;    // the step's number
};

// The steps that times are the means of: the middle half by wall time, or only the one or two that
// the median is taken from, so that the median is their time.
enum class MiddleSteps { kHalf, kMedian };

// Fills the times of a record that has its nodes and graphs. `order` has the graph of each run of a
// step. There is at least one step.
void add_step_times(std::span<const InstrumentedStep> steps,
                    const std::vector<int>& order,
                    StepRecord& record,
                    MiddleSteps of = MiddleSteps::kHalf);

StepRecord make_step_record(std::span<const PredictedGraph> graphs,
                            std::span<const InstrumentedStep> steps);

}  // namespace ridge::record
