// SPDX-License-Identifier: Apache-2.0
// Text and JSON of the differences between two output folders (record/run_change.h).
#pragma once

#include <string>
#include <vector>

#include "record/run_change.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

struct DiffSide {
  std::string path;
  record::SummaryFile file;
};

// One screen, or with `is_verbose` all operations of all pairs of runs, of which there is at least
// one.
std::string diff_text(const DiffSide& a,
                      const DiffSide& b,
                      const std::vector<record::RunChange>& runs,
                      const TerminalOptions& options,
                      bool is_verbose);
Json diff_json(const std::vector<record::RunChange>& runs);

}  // namespace ridge::report
