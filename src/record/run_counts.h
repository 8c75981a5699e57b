// SPDX-License-Identifier: Apache-2.0
// The counts of a run from the graphs that it runs: arithmetic, bytes, launches, predicted time and
// planned memory. Nothing here measures a graph.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cost/costed_graph.h"
#include "record/run_record.h"
#include "record/step_record.h"

namespace ridge::record {

// Fills the counts, the predicted time and the planned memory of the record; returns the graphs as
// the step record wants them. `ceilings` may be null: then nothing is predicted.
std::vector<PredictedGraph> count_graphs(std::span<const cost::ProgramGraph> graphs,
                                         const cost::Ceilings* ceilings,
                                         RunRecord& record);

// The time of a step of the graphs, as count_graphs predicts it.
double predict_step_ns(std::span<const PredictedGraph> graphs, const cost::Ceilings& ceilings);

// The parts of the layers whose scope ends in `name` ("layer.3/mlp"), with the times of the step's
// nodes; `step` is what make_step_record made of the same graphs.
ModuleRecord module_record(std::string_view name,
                           std::span<const PredictedGraph> graphs,
                           const StepRecord& step);

}  // namespace ridge::record
