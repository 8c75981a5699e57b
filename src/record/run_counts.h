// SPDX-License-Identifier: Apache-2.0
// Counts a run from its graphs: arithmetic, bytes, launches, predicted time and planned memory.
// Nothing here measures.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cost/costed_graph.h"
#include "record/run_record.h"
#include "record/step_record.h"

namespace ridge::record {

// Fills the counts, the predicted time and the planned memory of `record`. Returns the graphs in
// the form that make_step_record takes. `ceilings` may be null; then nothing is predicted.
std::vector<PredictedGraph> count_graphs(std::span<const cost::ProgramGraph> graphs,
                                         const cost::Ceilings* ceilings,
                                         RunRecord& record);

// The time of a step of these graphs, by the formula that count_graphs uses.
double predict_step_ns(std::span<const PredictedGraph> graphs, const cost::Ceilings& ceilings);

// Sums the parts of all layers whose scope ends in `name` ("layer.3/mlp"), with the node times of
// `step`, which make_step_record returned for the same graphs.
ModuleRecord module_record(std::string_view name,
                           std::span<const PredictedGraph> graphs,
                           const StepRecord& step);

}  // namespace ridge::record
