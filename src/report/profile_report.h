// SPDX-License-Identifier: Apache-2.0
// The profile of graphs alone: kernels by name on a terminal, and the files of a run folder. Its
// runs are those of a lab, so every other table and chart of a lab shows them too.
#pragma once

#include <string>
#include <vector>

#include "record/bench_record.h"
#include "record/lab_record.h"
#include "report/output_files.h"
#include "report/terminal.h"

namespace ridge::report {

// The kernels of a step by name, with calls, total, mean, least and most time. `most` limits the
// rows; the rest is summed in one.
Table kernel_table(const record::StepRecord& step, size_t most = 20);

// The kernels of each run, and where the time of a run goes that is no kernel's; then the first
// warning. Empty without runs.
std::string profile_text(const record::LabRecord& lab, const TerminalOptions& terminal);

// record_files of the runs, bench.json of the points, report.md and report.html; without runs
// bench_files.
std::vector<OutputFile> profile_files(record::LabRecord& lab, const record::BenchRecord& bench);

}  // namespace ridge::report
