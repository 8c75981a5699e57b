// SPDX-License-Identifier: Apache-2.0
// The output folder of `ridge bench`: bench.json and report.html.
#pragma once

#include <string>
#include <vector>

#include "report/json_text.h"
#include "report/output_files.h"

namespace ridge::report {

// `about` has the program, the command, the time and the ceilings, and no runs. `kind` is "op" or
// "model"; `result` is what the command prints with --json.
std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const std::string& kind,
                                    Json result);

}  // namespace ridge::report
