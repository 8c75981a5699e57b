// SPDX-License-Identifier: Apache-2.0
// Formats the terminal output of a lab, section by section.
#pragma once

#include <string>

#include "record/lab_record.h"
#include "report/terminal.h"

namespace ridge::report {

// The heading, the ladder, and the operations of the first batch size and length; with `verbose`
// unset what fits a screen.
std::string lab_text(const record::LabRecord& lab, bool verbose, const TerminalOptions& options);
// The lab's warnings from one on, a line each.
std::string warning_lines(const record::LabRecord& lab,
                          size_t from,
                          const TerminalOptions& options);

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
