// SPDX-License-Identifier: Apache-2.0
// Groups and sums node records.
#include "record/operation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "base/error.h"
#include "record/beaten_ceilings.h"

namespace ridge::record {
namespace {

// A row under construction, with its samples per step and its predicted time by bound.
struct Sum {
  OperationRow row;
  std::vector<double> samples_ns;
  double bound_ns[cost::kBounds] = {};

  void add(const NodeRecord& node) {
    ++row.nodes;
    add_amounts(row, node);
    if (node.work.flops > 0 || node.read_bytes > 0 || node.written_bytes > 0)
      row.counted_ns += node.time_ns;
    bound_ns[static_cast<size_t>(node.bound)] += node.predicted_ns;
    samples_ns.resize(std::max(samples_ns.size(), node.samples_ns.size()));
    for (size_t i = 0; i < node.samples_ns.size(); ++i) samples_ns[i] += node.samples_ns[i];
  }

  OperationRow finish(std::string key, int64_t wall_ns) {
    row.key = std::move(key);
    row.samples = summarize(samples_ns);
    row.share = ratio(row.exclusive_ns, wall_ns);
    const double* most = std::max_element(std::begin(bound_ns), std::end(bound_ns));
    row.bound =
        *most > 0 ? static_cast<cost::Bound>(most - std::begin(bound_ns)) : cost::Bound::kNone;
    return row;
  }
};

void warn(OperationTable& table, const cost::Ceilings* ceilings) {
  auto check = [&](const OperationRow& row) {
    if (row.share > 1)
      table.warnings.push_back(
          fmt::format("'{}' takes {:.1f}% of the step's wall time, so the clock must be wrong",
                      row.key, 100 * row.share));
    if (ceilings == nullptr) return;
    double peak = 0;
    for (const cost::ProductRates& rates : ceilings->products)
      peak = std::max(peak, rates.peak_flops_per_ns);
    if (peak > 0 && row.flops_per_ns() > kCeilingSlack * peak)
      table.warnings.push_back(
          fmt::format("'{}' ran at {:.0f}% of the measured GEMM peak, so that peak is too low; "
                      "measure it again with ridge machine --remeasure",
                      row.key, 100 * row.flops_per_ns() / peak));
  };
  for (const OperationRow& row : table.rows) check(row);
  check(table.total);
}

OperationRow total_of(const StepRecord& step) {
  Sum sum;
  for (const NodeRecord& node : step.nodes) sum.add(node);
  return sum.finish("total", step.wall_ns);
}

bool by_time(const OperationRow& a, const OperationRow& b) {
  return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.key < b.key;
}

OperationTable flat_table(std::string title,
                          const StepRecord& step,
                          const cost::Ceilings* ceilings,
                          const std::function<std::string(const NodeRecord&)>& key) {
  std::map<std::string, Sum> sums;
  for (const NodeRecord& node : step.nodes) sums[key(node)].add(node);
  OperationTable table;
  table.title = std::move(title);
  for (auto& [name, sum] : sums) table.rows.push_back(sum.finish(name, step.wall_ns));
  std::sort(table.rows.begin(), table.rows.end(), by_time);
  table.total = total_of(step);
  warn(table, ceilings);
  return table;
}

// A scope in the tree of scopes. `sum` covers everything below it; its own nodes become a leaf next
// to its children.
struct Branch {
  Sum sum;
  Sum own;
  std::map<std::string, std::unique_ptr<Branch>> children;
};

void add_rows(Branch& branch, int depth, int64_t wall_ns, std::vector<OperationRow>& rows) {
  std::vector<std::pair<OperationRow, Branch*>> children;
  for (auto& [name, child] : branch.children) {
    children.emplace_back(child->sum.finish(name, wall_ns), child.get());
    children.back().first.is_leaf = child->children.empty();
  }
  // A branch without children is a leaf itself. The root's own nodes have no scope.
  if (!branch.children.empty() && branch.own.row.nodes > 0)
    children.emplace_back(branch.own.finish(depth == 0 ? "(no scope)" : "(itself)", wall_ns),
                          nullptr);
  std::sort(children.begin(), children.end(),
            [](const auto& a, const auto& b) { return by_time(a.first, b.first); });
  for (auto& [row, child] : children) {
    row.depth = depth;
    rows.push_back(row);
    if (child != nullptr) add_rows(*child, depth + 1, wall_ns, rows);
  }
}

}  // namespace

std::string folded_scope(std::string_view scope) {
  std::string folded;
  for (size_t i = 0; i < scope.size(); ++i) {
    folded += scope[i];
    if (scope[i] != '.') continue;
    size_t end = i + 1;
    while (end < scope.size() && std::isdigit(static_cast<unsigned char>(scope[end])) != 0) ++end;
    if (end == i + 1 || (end < scope.size() && scope[end] != '/')) continue;
    folded += '*';
    i = end - 1;
  }
  return folded;
}

OperationTable table_by_op(const StepRecord& step, const cost::Ceilings* ceilings) {
  return flat_table("op", step, ceilings, [](const NodeRecord& node) { return node.op; });
}

OperationTable table_by_kind(const StepRecord& step, const cost::Ceilings* ceilings) {
  return flat_table("kind", step, ceilings, [](const NodeRecord& node) {
    return std::string(
        name(node.phase == "optimizer" ? OpCategory::kOptimizer : operation_category(node.op)));
  });
}

OperationTable table_by_phase(const StepRecord& step, const cost::Ceilings* ceilings) {
  return flat_table("phase", step, ceilings, [](const NodeRecord& node) { return node.phase; });
}

OperationTable table_by_place(const StepRecord& step, const cost::Ceilings* ceilings) {
  std::map<std::array<std::string, 3>, Sum> sums;
  for (const NodeRecord& node : step.nodes)
    sums[{node.phase, folded_scope(node.scope), node.op}].add(node);
  OperationTable table;
  table.title = "place";
  for (auto& [place, sum] : sums) {
    const auto& [phase, scope, op] = place;
    OperationRow row = sum.finish(fmt::format("{} {} {}", phase, scope, op), step.wall_ns);
    row.phase = phase;
    row.scope = scope;
    row.op = op;
    table.rows.push_back(std::move(row));
  }
  std::sort(table.rows.begin(), table.rows.end(), by_time);
  table.total = total_of(step);
  warn(table, ceilings);
  return table;
}

OperationTable table_by_scope(const StepRecord& step, const cost::Ceilings* ceilings) {
  Branch root;
  for (const NodeRecord& node : step.nodes) {
    Branch* branch = &root;
    std::string scope = folded_scope(node.scope);
    for (size_t at = 0; at < scope.size();) {
      size_t slash = std::min(scope.find('/', at), scope.size());
      auto& child = branch->children[scope.substr(at, slash - at)];
      if (child == nullptr) child = std::make_unique<Branch>();
      branch = child.get();
      branch->sum.add(node);
      at = slash + 1;
    }
    branch->own.add(node);
  }
  OperationTable table;
  table.title = "scope";
  add_rows(root, 0, step.wall_ns, table.rows);
  table.total = total_of(step);
  warn(table, ceilings);
  return table;
}

double total_absolute_error(const OperationTable& table) {
  double errors = 0;
  for (const OperationRow& row : table.rows)
    if (row.is_leaf) errors += std::abs(row.predicted_ns - static_cast<double>(row.exclusive_ns));
  return ratio(errors, table.total.exclusive_ns);
}

}  // namespace ridge::record
