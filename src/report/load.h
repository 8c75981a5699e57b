// SPDX-License-Identifier: Apache-2.0
// Text and JSON of a server under load (record/load_summary.h).
#pragma once

#include <string>

#include "record/load_summary.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

std::string load_text(const record::LoadSummary& load, const TerminalOptions& terminal);
Json load_json(const record::LoadSummary& load);

}  // namespace ridge::report
