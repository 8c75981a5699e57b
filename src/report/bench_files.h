// SPDX-License-Identifier: Apache-2.0
// The output folder of `ridge bench`: bench.json and report.html.
#pragma once

#include <vector>

#include "record/bench_record.h"
#include "record/lab_record.h"
#include "record/model_bench.h"
#include "report/output_files.h"

namespace ridge::report {

// `about` has the program, the command, the time and the ceilings, and no runs.
std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::BenchRecord& bench);
std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::ModelBenchRecord& bench);

}  // namespace ridge::report
