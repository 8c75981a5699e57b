// SPDX-License-Identifier: Apache-2.0
// A training step's graphs and nodes as text.
#pragma once

#include <string>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "report/terminal.h"
#include "train/setup.h"

namespace ridge::planning {

// The graphs after all passes, with the origins of nodes or without.
std::string graphs_text(const train::TrainingStep& step, bool has_origins);

// A step that is built for a backend, and the ceilings of its device.
struct PricedStep {
  train::TrainingStep step;
  const backends::Backend& backend;
  const cost::Ceilings& ceilings;
};
// The cost of the node that produces a value ("%12" or "12"), or of its readers. Throws a usage
// Error for another text and for a value that no graph has.
std::string value_text(const PricedStep& priced, const std::string& value);
// The op's cost formula and its nodes. Throws a usage Error for an unknown op.
std::string op_text(const PricedStep& priced,
                    const std::string& op,
                    const report::TerminalOptions& terminal);

// The heading of a step's costs: its setting, its size and, with `verbose`, the passes that are on.
std::string passes_heading(const train::TrainingSetup& setup,
                           const record::RunRecord& planned,
                           bool verbose);

}  // namespace ridge::planning
