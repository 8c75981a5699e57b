// SPDX-License-Identifier: Apache-2.0
// A text plot of the roofline: the machine's measured roofs and one lettered point per op of a run.
#pragma once

#include <string>

#include "base/terminal.h"
#include "record/lab_record.h"

namespace ridge::report {

// The axes are FLOPs per planned byte and FLOP/s, both logarithmic. Plots the `most` ops with the
// longest times among those that do arithmetic; a legend follows. Returns a sentence instead of the
// plot if no ceilings are known.
std::string roofline(const record::LabRecord& lab,
                     const record::RunRecord& run,
                     const TerminalOptions& options,
                     size_t most = 12);

}  // namespace ridge::report
