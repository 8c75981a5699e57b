// SPDX-License-Identifier: Apache-2.0
// Writes kernels.json: every node that launches kernels, and when each ran in the step with the
// median wall time. It holds the finest figures of a run; all tables are sums of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "record/lab_record.h"
#include "report/json_text.h"

namespace ridge::report {

struct KernelColumn {
  enum class Kind {
    kText,
    kNodes,   // a list of nodes
    kNumber,  // null if unknown
    kSum,     // over the calls of a node
  };
  std::string_view name;
  Kind kind;
};

// The columns of a row of "rows", in order. run_folder.cc builds the same rows from older folders.
std::span<const KernelColumn> kernel_columns();
Json kernel_column_names();

// The runs reported in detail. Each has "rows", "spans" of [row, begin_ns, end_ns] from the begin of
// the step, "host" of [name, begin_ns, end_ns] (writing inputs, launches, waiting, reading results),
// "device_kernels" (on a GPU: names, launch geometry and use of resources of each row's kernels) and
// "scopes" of [graph, scope, compulsory bytes]. One row, span, slice or kernel to a line.
std::string kernels_json(const record::LabRecord& lab);

}  // namespace ridge::report
