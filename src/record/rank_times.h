// SPDX-License-Identifier: Apache-2.0
// The ranks of one run, of Ridge itself or of imported traces: how long each communicates, how much
// of that other kernels hide, how long it waits for the others, and how fast collectives were.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/exchange_record.h"
#include "record/step_record.h"

namespace ridge::record {

// Collectives that differ in nothing but their place in the step.
struct CollectiveKind {
  std::string op, group;
  int64_t first_rank = 0;             // the group's
  int64_t ranks = 0;                  // in the group; 0: unknown, then all
  int64_t bytes = 0, sent_bytes = 0;  // the whole tensors'; a rank sends these. 0: unknown
  double predicted_ns = 0;            // by the link between the ranks
  bool operator==(const CollectiveKind&) const = default;
};

// A run of a collective on a rank.
struct RankCollective {
  int64_t step = 0;
  size_t kind = 0;  // index into RankSteps::kinds
  int64_t begin_ns = 0, end_ns = 0;
};

// The instrumented steps of a rank. Times of all ranks are on one clock if they have one.
struct RankSteps {
  int64_t rank = 0;
  std::string host;
  int64_t steps = 0, step_ns = 0, communication_ns = 0, overlapped_ns = 0;  // sums over the steps
  int64_t owned_bytes = 0, peak_bytes = 0;
  std::vector<CollectiveKind> kinds;
  std::vector<RankCollective> collectives;  // those of a step in the order of their begin
};

// The collectives of a group are paired by their order within a step; where its ranks do not have
// the same ones, nobody is known to wait. A rank waits until the last has begun. Without one clock,
// a collective is taken to end on all ranks together, so the rank on which it is shortest was last.
ExchangeRecord exchange_record(std::span<const RankSteps> ranks, bool has_one_clock);

// The time that intervals of both lists cover, for each interval of the first that does. The
// intervals of each list are sorted by their begin.
struct Interval {
  int64_t begin_ns = 0, end_ns = 0;
};
int64_t common_ns(std::span<const Interval> some, std::span<const Interval> others);

// The instrumented steps of a rank of Ridge's own. `first_ranks` has the first rank of each of its
// groups; `clock` turns a time of its clock into one of the clock of all. Memory and host are not
// set.
RankSteps rank_steps(std::span<const PredictedGraph> graphs,
                     std::span<const InstrumentedStep> steps,
                     int64_t rank,
                     const std::map<std::string, int64_t>& first_ranks,
                     const std::function<double(double ns)>& clock);
// The lane of a timeline, from the moment `begin_ns` of the clock of all on.
RankLane rank_lane(const StepRecord& step, int64_t rank, int64_t begin_ns);
// When the first collective of a timeline ends, from its begin; none without collectives.
std::optional<int64_t> first_exchange_ns(const StepRecord& step);

}  // namespace ridge::record
