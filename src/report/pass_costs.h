// SPDX-License-Identifier: Apache-2.0
// Text and JSON of the cost of a step after each pass (record/run_record.h).
#pragma once

#include <span>
#include <string>

#include "record/run_record.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// A table of the costs, and a paragraph on the whole step, which names the ceilings' `source`.
// Without `verbose`, the last row counts the passes that change no cost.
std::string pass_costs_text(std::span<const record::PassCost> costs,
                            const std::string& source,
                            bool verbose,
                            const TerminalOptions& terminal);
Json pass_costs_json(std::span<const record::PassCost> costs);

}  // namespace ridge::report
