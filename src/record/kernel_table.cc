// SPDX-License-Identifier: Apache-2.0
// Sums the spans of a timeline.
#include "record/kernel_table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace ridge::record {

std::vector<KernelRow> kernel_rows(const StepRecord& step) {
  std::map<std::string, KernelRow> by_name;
  std::map<std::string, std::set<std::string>> ops;
  double all_ns = 0;
  for (const TimelineRun& each : step.timeline) {
    const std::vector<int>& record_of = step.graphs[static_cast<size_t>(each.graph)].record_of;
    for (const Span& span : each.run.spans) {
      const NodeRecord& node =
          step.nodes[static_cast<size_t>(record_of[static_cast<size_t>(span.node)])];
      const std::string& name =
          span.kernel < 0 ? node.op : each.run.kernels[static_cast<size_t>(span.kernel)].name;
      const double ns = span.end_ns - span.begin_ns;
      KernelRow& row = by_name[name];
      row.least_ns = row.calls == 0 ? ns : std::min(row.least_ns, ns);
      row.most_ns = std::max(row.most_ns, ns);
      row.total_ns += ns;
      ++row.calls;
      ops[name].insert(node.op);
      all_ns += ns;
    }
  }
  std::vector<KernelRow> rows;
  for (auto& [name, row] : by_name) {
    row.name = name;
    row.share = ratio(row.total_ns, all_ns);
    for (const std::string& op : ops[name]) row.op += (row.op.empty() ? "" : ", ") + op;
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &KernelRow::total_ns);
  return rows;
}

}  // namespace ridge::record
