// SPDX-License-Identifier: Apache-2.0
// The roofline in characters: the machine's measured roofs, and one lettered point an op of a run.
#pragma once

#include <string>

#include "base/terminal.h"
#include "record/lab_record.h"

namespace ridge::report {

// Axes are FLOPs per planned byte and FLOP/s, both logarithmic. Points are the `most` ops that take
// the most time and do arithmetic; a legend follows. A sentence instead of the plot where no
// ceilings are known.
std::string roofline(const record::LabRecord& lab,
                     const record::RunRecord& run,
                     const TerminalOptions& options,
                     size_t most = 12);

}  // namespace ridge::report
