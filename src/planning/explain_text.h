// SPDX-License-Identifier: Apache-2.0
// Texts of ridge explain on passes, kernels and the nodes of a training step.
#pragma once

#include <span>
#include <string>

#include "backends/backend.h"
#include "backends/cpu/kernels/quantized/choose.h"
#include "cost/ceilings.h"
#include "passes/pipeline.h"
#include "report/terminal.h"
#include "train/setup.h"

namespace ridge::planning {

// The passes in the order in which they run, with summary and trade-off. No line is wider than
// `columns`.
std::string pass_list_text(int columns);

// The same as a JSON array.
std::string pass_list_json();

// The passes that the selection leaves off, with their summaries if `verbose` is set.
std::string passes_off_text(const passes::Selection& selection,
                            std::span<const passes::Pass* const> of_backend,
                            bool verbose,
                            int columns);

// The table by which the CPU chooses the kernels of quantized_matmul: the rows of
// backends/cpu/kernels/quantized/choose.cc, in order, and what passes choose on `isa`.
std::string quantized_table_text(backends::cpu::QuantizedIsa isa,
                                 const report::TerminalOptions& options);

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
