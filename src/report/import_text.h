// SPDX-License-Identifier: Apache-2.0
// The text of an imported trace: its step, its operations, and how much of their time Ridge knows.
#pragma once

#include <string>

#include "record/import/import_summary.h"
#include "record/run_record.h"
#include "report/terminal.h"

namespace ridge::report {

std::string import_text(const record::ImportSummary& summary,
                        const record::RunRecord& run,
                        bool verbose,
                        const TerminalOptions& terminal);

}  // namespace ridge::report
