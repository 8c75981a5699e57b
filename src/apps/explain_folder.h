// SPDX-License-Identifier: Apache-2.0
// ridge explain DIR: the results in an output folder.
#pragma once

#include <string>

#include "apps/command.h"

namespace ridge::apps {

struct ExplainForm {
  bool json = false;     // with the keys of performance_summary.json
  bool verbose = false;  // all runs and operations, not only what fits a screen
};
// Prints the runs, the operations of those reported in detail, the advice and the warnings. Throws
// as record::read_summary does.
void explain_folder(const std::string& folder, const ExplainForm& form, TerminalOptions options);

}  // namespace ridge::apps
