// SPDX-License-Identifier: Apache-2.0
// What a lab prints for people, section by section.
#pragma once

#include <string>

#include "base/terminal.h"
#include "perf/lab_record.h"

namespace ridge::report {

// Machine and model in a few lines.
std::string heading_text(const perf::LabRecord& lab, const TerminalOptions& options);
// The ladder of each batch size and length, and the sweep where there are several.
std::string ladder_text(const perf::LabRecord& lab, const TerminalOptions& options);
// Operation tables, roofline and memory of one run.
std::string operations_text(const perf::LabRecord& lab,
                            const perf::RunRecord& run,
                            const TerminalOptions& options);
std::string advice_text(const perf::LabRecord& lab, const TerminalOptions& options);
std::string trial_text(const perf::LabRecord& lab, const TerminalOptions& options);

}  // namespace ridge::report
