// SPDX-License-Identifier: Apache-2.0
// Tables that sum a step's nodes by op, by scope with the layers folded, or by phase. Counts and
// times of a row are exact sums over its nodes; the total is the sum of the rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/ceilings.h"
#include "graph/op.h"
#include "record/run_record.h"

namespace ridge::record {

struct OperationRow {
  std::string key;
  std::string op, scope, phase;  // only in table_by_place
  int depth = 0;                 // level in a tree of scopes; 0 in flat tables
  bool is_leaf = true;           // the leaves of a table add up to its total
  int64_t nodes = 0, calls = 0, time_ns = 0, exclusive_ns = 0;
  int64_t counted_ns = 0;  // the part of time_ns whose work or bytes are known; rates refer to it
  Summary samples;         // per-step times of the row
  double share = 0;
  Work work;
  int64_t read_bytes = 0, written_bytes = 0, sent_bytes = 0;
  double predicted_ns = 0;
  cost::Bound bound = cost::Bound::kNone;

  int64_t bytes() const { return read_bytes + written_bytes; }
  double intensity() const { return ratio(work.flops, bytes()); }        // FLOPs per planned byte
  double flops_per_ns() const { return ratio(work.flops, rated_ns()); }  // GFLOP/s
  double bytes_per_ns() const { return ratio(bytes(), rated_ns()); }     // GB/s
  int64_t rated_ns() const { return counted_ns > 0 ? counted_ns : time_ns; }
  double counted_share() const { return time_ns > 0 ? ratio(counted_ns, time_ns) : 1; }
  // A prediction assumes that the kernel has the device to itself, so it compares with exclusive
  // time. The error is predicted over exclusive time, less 1; 0 if either is unknown.
  double error() const { return exclusive_ns > 0 && predicted_ns > 0 ? limit_share() - 1 : 0; }
  double limit_share() const { return ratio(predicted_ns, exclusive_ns); }  // 1: at the ceilings
};

// Adds all additive amounts of `more`, a row or a node, except the number of nodes and the share.
template <typename Measured>
void add_amounts(OperationRow& row, const Measured& more) {
  row.calls += more.calls;
  row.time_ns += more.time_ns;
  row.exclusive_ns += more.exclusive_ns;
  row.work += more.work;
  row.read_bytes += more.read_bytes;
  row.written_bytes += more.written_bytes;
  row.sent_bytes += more.sent_bytes;
  row.predicted_ns += more.predicted_ns;
  if constexpr (requires { more.counted_ns; }) row.counted_ns += more.counted_ns;
}

struct OperationTable {
  std::string title;  // "op", "kind", "scope", "phase"
  // Sorted by time, largest first; in a tree, children follow their parent.
  std::vector<OperationRow> rows;
  OperationRow total;
  // One sentence for each rate above a measured ceiling.
  std::vector<std::string> warnings;
};

OperationTable table_by_op(const StepRecord& step, const cost::Ceilings* ceilings);
OperationTable table_by_scope(const StepRecord& step, const cost::Ceilings* ceilings);
// By operation_category(), so that programs which name and fuse operations differently line up.
OperationTable table_by_kind(const StepRecord& step, const cost::Ceilings* ceilings);
OperationTable table_by_phase(const StepRecord& step, const cost::Ceilings* ceilings);
// The finest table that still folds layers: one row per op, folded scope and phase. The other
// tables are sums of its rows.
OperationTable table_by_place(const StepRecord& step, const cost::Ceilings* ceilings);

// "layer.3/attention" -> "layer.*/attention": replaces each number after a dot with "*".
std::string folded_scope(std::string_view scope);

// The sum over the leaf rows of |predicted - exclusive time|, as a share of the total exclusive
// time.
double total_absolute_error(const OperationTable& table);

// The category of an op of Ridge, or of an operation that an imported trace names; kOther for
// unknown names.
OpCategory operation_category(std::string_view op);

}  // namespace ridge::record
