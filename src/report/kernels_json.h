// SPDX-License-Identifier: Apache-2.0
// Writes kernels.json: every node that launches kernels, and when each ran in the step with the
// median wall time. It holds the finest figures of a run; all tables are sums of them.
#pragma once

#include <string>
#include <vector>

#include "record/lab_record.h"

namespace ridge::report {

// The columns of a row of "rows", in order. report/page_data.cc builds the same rows from older
// folders.
const std::vector<std::string>& kernel_columns();

// The runs reported in detail. Each has "rows", "spans" of [row, begin_ns, end_ns], where the graphs
// of the step are laid end to end, and "scopes" of [graph, scope, compulsory bytes]. One row or span to a line.
std::string kernels_json(const record::LabRecord& lab);

}  // namespace ridge::report
