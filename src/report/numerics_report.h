// SPDX-License-Identifier: Apache-2.0
// The ranges of a step's numbers, as a table and as JSON.
#pragma once

#include "record/numerics_record.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// Ends in a newline.
std::string numerics_text(const record::NumericsRecord& record, const TerminalOptions& options);
Json to_json(const record::NumericsRecord& record);

}  // namespace ridge::report
