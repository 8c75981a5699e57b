// SPDX-License-Identifier: Apache-2.0
// Sums of a step's nodes: by op, by scope with the layers folded, by phase. Counts and times of a
// row are exact sums of its nodes; the total is the sum of the rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/ceilings.h"
#include "record/run_record.h"

namespace ridge::record {

struct OperationRow {
  std::string key;
  std::string op, scope, phase;  // of table_by_place only
  int depth = 0;                 // of a tree of scopes; 0 elsewhere and for the total's children
  bool is_leaf = true;           // the leaves of a table add up to its total
  int64_t nodes = 0;
  int64_t calls = 0;
  int64_t time_ns = 0;       // mean over the middle half of the steps
  int64_t exclusive_ns = 0;  // of it, in equal parts where kernels ran side by side
  Summary samples;           // per-step times of the row: median and interval
  double share = 0;          // exclusive time over the step's wall time
  Work work;
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  double predicted_ns = 0;
  cost::Bound bound = cost::Bound::kNone;  // what most of the predicted time goes to

  // Adds what `more`, a row or a node, has of everything that adds up but nodes and shares.
  template <typename Measured>
  void add_amounts(const Measured& more) {
    calls += more.calls;
    time_ns += more.time_ns;
    exclusive_ns += more.exclusive_ns;
    work += more.work;
    read_bytes += more.read_bytes;
    written_bytes += more.written_bytes;
    predicted_ns += more.predicted_ns;
  }
  int64_t bytes() const { return read_bytes + written_bytes; }
  double intensity() const;     // FLOPs per planned byte; 0 without bytes
  double flops_per_ns() const;  // GFLOP/s
  double bytes_per_ns() const;  // GB/s
  // A prediction is of a kernel that has the device to itself: it stands beside the exclusive time.
  double error() const;        // predicted over own, less 1; 0 where either is unknown
  double limit_share() const;  // predicted over own: 1 = as fast as the ceilings allow
};

struct OperationTable {
  std::string title;  // "op", "scope", "phase"
  // By time, largest first; a tree keeps children under their parent
  std::vector<OperationRow> rows;
  OperationRow total;
  // Shares over 100% and rates over a ceiling, each in a sentence
  std::vector<std::string> warnings;
};

OperationTable table_by_op(const StepRecord& step, const cost::Ceilings* ceilings);
OperationTable table_by_scope(const StepRecord& step, const cost::Ceilings* ceilings);
OperationTable table_by_phase(const StepRecord& step, const cost::Ceilings* ceilings);
// The finest that still folds layers: each op of each folded scope in each phase. The others are
// sums of it.
OperationTable table_by_place(const StepRecord& step, const cost::Ceilings* ceilings);

// "layer.3/attention" -> "layer.*/attention": a number after a dot stands for any.
std::string folded_scope(std::string_view scope);

// The sum over the rows of |predicted - own| as a share of the total.
double total_absolute_error(const OperationTable& table);

}  // namespace ridge::record
