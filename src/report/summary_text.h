// SPDX-License-Identifier: Apache-2.0
// The results in a summary file (performance_summary.json), as ridge explain DIR prints them.
#pragma once

#include <string>

#include "record/summary_file.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// The runs, the operations of those reported in detail, the advice and the warnings; without
// `verbose` only what fits a screen.
std::string summary_text(const record::SummaryFile& summary,
                         bool verbose,
                         const TerminalOptions& terminal);
// The same with the keys of performance_summary.json.
Json summary_json(const record::SummaryFile& summary);

}  // namespace ridge::report
