// SPDX-License-Identifier: Apache-2.0
// Writes kernels.json: every node that launches kernels, and when each ran in the step with the
// median wall time. It holds the finest figures of a run; all tables are sums of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "record/lab_record.h"
#include "report/json_text.h"

namespace ridge::report {

// An empty row by the names of its columns, in order: texts, lists of nodes, and numbers or null.
// run_folder.cc builds the same rows from older folders.
const Json& kernel_columns();
Json kernel_column_names();

// The runs reported in detail. Each has "rows", "spans" of [row, begin_ns, end_ns] from the begin
// of the step, "host" of [name, begin_ns, end_ns] (writing inputs, launches, waiting, reading
// results), "device_kernels" (on a GPU: names, geometry and resources of each row's kernels) and
// "scopes" of [graph, scope, compulsory bytes]. One row, span, slice or kernel to a line.
std::string kernels_json(const record::LabRecord& lab);

struct RunKernels {
  nlohmann::json setting;  // its run's; null for a trace, whose runs are in the summary's order
  nlohmann::json rows = nlohmann::json::array();    // values in the order of kernel_columns()
  nlohmann::json spans = nlohmann::json::array();   // [row, begin_ns, end_ns]
  nlohmann::json scopes = nlohmann::json::array();  // [graph, scope, compulsory_bytes]
};

// Both throw bad-file Errors that name the field.
std::vector<RunKernels> read_kernels(const nlohmann::json& kernels);
// The times are those of the one step in the trace.
std::vector<RunKernels> read_traced_kernels(const nlohmann::json& trace);

}  // namespace ridge::report
