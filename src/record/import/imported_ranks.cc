// SPDX-License-Identifier: Apache-2.0
// Finds the collectives of imported steps.
#include "record/import/imported_ranks.h"

#include <algorithm>
#include <string>

namespace ridge::record {
namespace {

RankSteps rank_steps(const ImportedSteps& from, int64_t rank) {
  RankSteps steps;
  steps.rank = rank, steps.steps = std::ssize(from.steps);
  steps.kinds.push_back({.op = "collective", .group = ""});
  for (const ImportedStep& step : from.steps) steps.step_ns += step.end_ns - step.begin_ns;
  std::vector<Interval> communication, others;
  for (const ImportedSpan& span : from.spans) {
    const ImportedOperation& operation = from.operations[span.operation];
    const bool communicates = operation.op == "collective";
    (communicates ? communication : others).push_back({span.begin_ns, span.end_ns});
    if (!communicates) continue;
    steps.communication_ns += span.end_ns - span.begin_ns;
    steps.collectives.push_back({operation.step, 0, span.begin_ns, span.end_ns});
  }
  steps.overlapped_ns = common_ns(communication, others);
  return steps;
}

}  // namespace

std::vector<std::filesystem::path> trace_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code fault;
  for (std::filesystem::directory_iterator each(folder, fault), end; !fault && each != end;
       each.increment(fault)) {
    const std::string name = each->path().filename().string();
    if (name.ends_with(".json") || name.ends_with(".json.gz")) files.push_back(each->path());
  }
  std::ranges::sort(files);
  return files;
}

ExchangeRecord exchange_record(std::span<const ImportedSteps> ranks) {
  std::vector<RankSteps> all;
  for (const ImportedSteps& each : ranks) all.push_back(rank_steps(each, std::ssize(all)));
  ExchangeRecord record = exchange_record(all, false);
  record.clock = "of each trace alone; a collective is taken to end on all ranks together";
  return record;
}

}  // namespace ridge::record
