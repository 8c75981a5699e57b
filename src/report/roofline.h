// SPDX-License-Identifier: Apache-2.0
// The roofline as a table: the machine's measured roofs, and the rate of each op of a run with its
// share of the roof above it.
#pragma once

#include <string>

#include "record/lab_record.h"
#include "report/terminal.h"

namespace ridge::report {

// Has the `most` ops with the longest times among those that do arithmetic, with their FLOPs per
// planned byte. Returns a sentence instead of the table if no ceilings are known.
std::string roofline(const record::LabRecord& lab,
                     const record::RunRecord& run,
                     const TerminalOptions& options,
                     size_t most = 12);

}  // namespace ridge::report
