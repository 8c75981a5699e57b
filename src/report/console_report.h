// SPDX-License-Identifier: Apache-2.0
// Formats the terminal output of a lab, section by section.
#pragma once

#include <string>

#include "record/lab_record.h"
#include "report/terminal.h"

namespace ridge::report {

// The machine and the model in a few lines.
std::string heading_text(const record::LabRecord& lab, const TerminalOptions& options);
// The ladder of each batch size and length, and the sweep if there are several.
std::string ladder_text(const record::LabRecord& lab, const TerminalOptions& options);
// Operation tables, roofline and memory of one run.
std::string operations_text(const record::LabRecord& lab,
                            const record::RunRecord& run,
                            const TerminalOptions& options);
std::string advice_text(const record::LabRecord& lab, const TerminalOptions& options);
std::string trials_text(const record::LabRecord& lab, const TerminalOptions& options);

}  // namespace ridge::report
