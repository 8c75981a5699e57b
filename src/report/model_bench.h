// SPDX-License-Identifier: Apache-2.0
// Tables, CSV and JSON of a whole model's bench (record/model_bench.h).
#pragma once

#include <string>

#include "record/model_bench.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

Json model_bench_json(const record::ModelBenchRecord& bench);
std::string model_bench_csv(const record::ModelBenchRecord& bench);
// Tables and sentences; in Markdown the tables have all columns.
std::string model_bench_text(const record::ModelBenchRecord& bench,
                             const TerminalOptions& terminal,
                             bool is_markdown);
// A table of the longest operations, or of all with `is_whole`.
std::string kernel_times_text(const record::KernelTimes& times,
                              const TerminalOptions& terminal,
                              bool is_markdown,
                              bool is_whole);

}  // namespace ridge::report
