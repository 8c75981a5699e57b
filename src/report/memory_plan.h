// SPDX-License-Identifier: Apache-2.0
// The planned memory of one graph: a text, JSON, and a picture of what is live while each node
// runs. report.html draws the memory of whole runs.
#pragma once

#include <string>

#include "cost/costed_graph.h"
#include "record/memory_record.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// Classes of memory, and the largest of what is live at the peak.
std::string memory_plan_text(const record::MemoryRecord& memory, const TerminalOptions& options);

// {owned_bytes, arena_bytes, live_peak_bytes, ..., peak_at, tensors_at_peak, timeline, buffers};
// a buffer is a range of the arena that is live from node `first` to node `last`.
Json memory_plan_json(const record::MemoryRecord& memory, const cost::CostedGraph& graph);

// An SVG with a stacked column for each node, a colour for each class. Of more than kMostColumns
// nodes in a row, each column is the one with the most memory. Empty without nodes.
inline constexpr size_t kMostColumns = 600;
std::string memory_chart(const record::MemoryRecord& memory);

}  // namespace ridge::report
