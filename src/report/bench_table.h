// SPDX-License-Identifier: Apache-2.0
// Prints the points of `ridge bench` and `ridge demo` on a terminal, as Markdown, CSV and JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "record/bench_record.h"
#include "record/lab_record.h"
#include "record/model_bench.h"
#include "report/json_text.h"
#include "report/output_files.h"
#include "report/terminal.h"

namespace ridge::report {

// One row per point. Columns that are empty in all points are left out. With other bytes than
// "ridge", bytes and intensity are by that convention where a point has it.
Table bench_table(const record::BenchRecord& bench);

// Laws, cliffs and notes, a line each; the same for the terminal and Markdown.
std::string bench_notes(const record::BenchRecord& bench);

// The record as "csv", "json", "md" or "table", which has a heading.
std::string bench_text(const record::BenchRecord& bench,
                       const std::string& format,
                       const TerminalOptions& terminal);

std::string bench_csv(const record::BenchRecord& bench);

// {op or module, dtype, device, threads, cases: [...], fits, cliffs}
Json bench_json(const record::BenchRecord& bench);
// A list of such objects, as text.
std::string benches_json(std::span<const record::BenchRecord> benches);

// `about` has the program, the command, the time and the ceilings, and no runs.
std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::BenchRecord& bench);
std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::ModelBenchRecord& bench);

}  // namespace ridge::report
