// SPDX-License-Identifier: Apache-2.0
// ridge explain DIR: the results in an output folder.
#pragma once

#include <string>

#include "base/terminal.h"

namespace ridge::apps {

// Prints the runs, the operations of those reported in detail, the advice and the warnings, as text
// or as JSON with the keys of performance_summary.json. Throws as record::read_summary does.
void explain_folder(const std::string& folder, bool as_json, const TerminalOptions& options);

}  // namespace ridge::apps
