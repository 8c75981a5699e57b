// SPDX-License-Identifier: Apache-2.0
// Pairs the collectives of ranks.
#include "record/import/rank_times.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace ridge::record {
namespace {

using Interval = std::pair<int64_t, int64_t>;

// The spans of collectives, or all others.
std::vector<Interval> spans_of(const ImportedSteps& steps, bool communicates) {
  std::vector<Interval> all;
  for (const ImportedSpan& span : steps.spans)
    if ((steps.operations[span.operation].op == "collective") == communicates)
      all.emplace_back(span.begin_ns, span.end_ns);
  return all;
}

// The time that spans of both lists cover. The spans of each are sorted by their begin.
int64_t common_ns(const std::vector<Interval>& some, const std::vector<Interval>& others) {
  std::vector<Interval> joined;
  std::vector<int64_t> before;  // the time in those before, by the index of a joined one
  for (const auto& [begin, end] : others) {
    if (!joined.empty() && begin <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, end);
      continue;
    }
    before.push_back(joined.empty() ? 0
                                    : before.back() + joined.back().second - joined.back().first);
    joined.emplace_back(begin, end);
  }
  const auto covered_before = [&](int64_t at) {
    const auto next = std::ranges::upper_bound(joined, at, {}, &Interval::first);
    if (next == joined.begin()) return int64_t{0};
    const auto& [begin, end] = *(next - 1);
    return before[static_cast<size_t>(next - joined.begin()) - 1] + std::min(at, end) - begin;
  };
  int64_t sum = 0;
  for (const auto& [begin, end] : some) sum += covered_before(end) - covered_before(begin);
  return sum;
}

// The lengths of collectives by step.
std::map<int32_t, std::vector<int64_t>> lengths(const ImportedSteps& steps) {
  std::map<int32_t, std::vector<int64_t>> all;
  for (const ImportedSpan& span : steps.spans) {
    const ImportedOperation& operation = steps.operations[span.operation];
    if (operation.op == "collective") all[operation.step].push_back(span.end_ns - span.begin_ns);
  }
  return all;
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

std::vector<RankTimes> rank_times(std::span<const ImportedSteps> ranks) {
  std::vector<RankTimes> all;
  std::vector<std::map<int32_t, std::vector<int64_t>>> collectives;
  for (const ImportedSteps& steps : ranks) {
    RankTimes times;
    times.rank = std::ssize(all);
    for (const ImportedStep& step : steps.steps) times.step_ns += step.end_ns - step.begin_ns;
    const std::vector<Interval> communication = spans_of(steps, true);
    for (const auto& [begin_ns, end_ns] : communication)
      times.communication_ns += end_ns - begin_ns;
    times.overlapped_ns = common_ns(communication, spans_of(steps, false));
    all.push_back(times);
    collectives.push_back(lengths(steps));
  }
  if (collectives.empty()) return all;
  for (const auto& [step, first] : collectives[0]) {
    if (!std::ranges::all_of(collectives, [&, count = first.size(), at = step](const auto& each) {
          const auto found = each.find(at);
          return found != each.end() && found->second.size() == count;
        }))
      continue;
    for (size_t i = 0; i < first.size(); ++i) {
      int64_t least = INT64_MAX;
      for (const auto& each : collectives) least = std::min(least, each.at(step)[i]);
      for (size_t rank = 0; rank < all.size(); ++rank)
        all[rank].waiting_ns += collectives[rank].at(step)[i] - least;
    }
  }
  return all;
}

}  // namespace ridge::record
