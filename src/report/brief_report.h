// SPDX-License-Identifier: Apache-2.0
// The sections of a lab that commands print on a terminal. Without --verbose they are brief: all of
// a result together fit a screen of 45 lines at 100 columns.
#pragma once

#include <string>

#include "record/inference_record.h"
#include "record/lab_record.h"
#include "report/terminal.h"

namespace ridge::report {

// Rows of a table; the rest is summed, or counted below the table.
inline constexpr size_t kBriefOperations = 8;
inline constexpr size_t kBriefRuns = 12;

// Tables are no wider than a screen, also where the output is no terminal.
TerminalOptions fitted(TerminalOptions options);

// The machine, its ceilings and the model in two lines, then a warning and the number of others.
std::string brief_heading(const record::LabRecord& lab, const TerminalOptions& options);
// The ladder of the only batch size and length, or the sweep.
std::string brief_ladder(const record::LabRecord& lab, const TerminalOptions& options);
// The largest ops of a run, its idle time, and the roofline's verdict.
std::string brief_operations(const record::LabRecord& lab,
                             const record::RunRecord& run,
                             const TerminalOptions& options);
// The verdict in a line or two; empty if ceilings or times are unknown.
std::string roofline_line(const record::LabRecord& lab,
                          const record::RunRecord& run,
                          const TerminalOptions& options);
// The first warnings that fit, and the number of the others.
std::string brief_warnings(const std::vector<std::string>& warnings,
                           const TerminalOptions& options);
// Advice, a line each.
std::string brief_advice(const record::LabRecord& lab, const TerminalOptions& options);
// Prefill and decode by level, batch and length; cache, latency and attention in a line each.
std::string brief_study(const record::InferenceRecord& study, const TerminalOptions& options);

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
// The heading, the ladder, and the operations of the first batch size and length; with `verbose`
// unset what fits a screen.
std::string lab_text(const record::LabRecord& lab, bool verbose, const TerminalOptions& options);
// The lab's warnings from one on, a line each.
std::string warning_lines(const record::LabRecord& lab,
                          size_t from,
                          const TerminalOptions& options);

}  // namespace ridge::report
