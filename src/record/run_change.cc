// SPDX-License-Identifier: Apache-2.0
// Pairs runs and operations.
#include "record/run_change.h"

#include <algorithm>
#include <map>

namespace ridge::record {
namespace {

bool is_same_setting(const Setting& a, const Setting& b) {
  return a.model == b.model && a.level == b.level && a.batch_size == b.batch_size &&
         a.sequence == b.sequence && a.micro_batches == b.micro_batches;
}

using Rows = std::vector<SummaryOperation>;

std::vector<Change> row_changes(const Rows& before, const Rows& after) {
  std::map<std::string, Change> changes;
  for (const SummaryOperation& row : before) changes[row.key].before = row.samples;
  for (const SummaryOperation& row : after) changes[row.key].after = row.samples;
  std::vector<Change> sorted;
  for (auto& [key, change] : changes) {
    change.key = key;
    sorted.push_back(change);
  }
  auto size = [](const Change& c) { return std::max(c.before.median, c.after.median); };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Change& a, const Change& b) { return size(a) > size(b); });
  return sorted;
}

// The same work by another program, or at another level.
bool is_same_work(const Setting& a, const Setting& b) {
  return a.task == b.task && a.samples() == b.samples() && a.sequence == b.sequence;
}

}  // namespace

std::string Change::verdict() const {
  if (before.count == 0) return "only in B";
  if (after.count == 0) return "only in A";
  if (overlap(before, after)) return "noise";
  const char* unsure = std::min(before.coverage, after.coverage) < 0.95 ? "?" : "";
  return (after.median < before.median ? "faster" : "slower") + std::string(unsure);
}

bool RunChange::has_same_ops() const {
  const auto one_sided = std::ranges::count_if(ops, &Change::is_one_sided);
  return 2 * static_cast<size_t>(one_sided) <= ops.size();
}

std::vector<RunChange> run_changes(const SummaryFile& a, const SummaryFile& b) {
  std::vector<RunChange> matched;
  auto add = [&](const SummaryRun& before, const SummaryRun& after) {
    matched.push_back({&before,
                       &after,
                       {"step", before.step, after.step},
                       row_changes(before.by_op, after.by_op),
                       {}});
    if (!before.by_kind.empty() && !after.by_kind.empty())
      matched.back().kinds = row_changes(before.by_kind, after.by_kind);
  };
  for (const SummaryRun& before : a.runs)
    for (const SummaryRun& after : b.runs)
      if (is_same_setting(before.setting, after.setting)) {
        add(before, after);
        break;
      }
  const bool has_one = a.runs.size() == 1 || b.runs.size() == 1;
  const bool have_one_each = a.runs.size() == 1 && b.runs.size() == 1;
  if (matched.empty() && has_one)
    for (const SummaryRun& before : a.runs)
      for (const SummaryRun& after : b.runs)
        if (have_one_each || is_same_work(before.setting, after.setting)) add(before, after);
  return matched;
}

}  // namespace ridge::record
