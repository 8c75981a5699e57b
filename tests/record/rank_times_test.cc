// SPDX-License-Identifier: Apache-2.0
// Tests of the times of ranks on one clock: who waits, who is late, and how fast the link was.
#include "record/rank_times.h"

#include <gtest/gtest.h>

#include "cost/costed_graph.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "plan/targets.h"

namespace ridge::record {
namespace {

// A rank of the group that begins with rank `first`, which runs an all-reduce of 1000 bytes.
RankSteps rank(int64_t number, int64_t first, int64_t ranks) {
  RankSteps steps;
  steps.rank = number, steps.steps = 1, steps.step_ns = 1000;
  steps.kinds.push_back({"all_reduce", "data", first, ranks, 1000, 1500, 50});
  return steps;
}

void run(RankSteps& of, int64_t begin_ns, int64_t end_ns, int64_t step = 0) {
  of.collectives.push_back({step, 0, begin_ns, end_ns});
  of.communication_ns += end_ns - begin_ns;
}

TEST(RankTimes, ARankWaitsUntilTheLastHasArrived) {
  std::vector<RankSteps> ranks = {rank(0, 0, 3), rank(1, 0, 3), rank(2, 0, 3)};
  // Rank 2 comes 40 ns after rank 0 and 30 after rank 1; the transfer takes 60.
  run(ranks[0], 100, 200), run(ranks[1], 110, 200), run(ranks[2], 140, 200);
  const ExchangeRecord record = exchange_record(ranks, true);
  ASSERT_EQ(record.ranks.size(), 3u);
  const std::vector<int64_t> waits = {40, 30, 0}, late = {0, 10, 40};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(record.ranks[i].waiting_ns, waits[i]);
    EXPECT_EQ(record.ranks[i].transfer_ns(), 60);
    EXPECT_EQ(record.ranks[i].late_ns, late[i]);
    EXPECT_EQ(record.ranks[i].last, i == 2 ? 1 : 0);
  }
  ASSERT_EQ(record.collectives.size(), 1u);
  const CollectiveTimes& row = record.collectives[0];
  EXPECT_EQ(row.ranks, 3);
  EXPECT_EQ(row.calls, 1);
  EXPECT_DOUBLE_EQ(row.transfer_ns, 60);
  EXPECT_DOUBLE_EQ(row.waiting_ns, 70.0 / 3);
  EXPECT_DOUBLE_EQ(row.skew_ns, 40);
  // 1500 bytes in 60 ns, and in 50 by the link.
  EXPECT_DOUBLE_EQ(row.bus_bytes_per_s(), 25e9);
  EXPECT_DOUBLE_EQ(row.predicted_bytes_per_s(), 30e9);
}

// A collective ends later on some rank than the last one arrives on it.
TEST(RankTimes, NobodyWaitsLongerThanTheCollectiveTakes) {
  std::vector<RankSteps> ranks = {rank(0, 0, 2), rank(1, 0, 2)};
  run(ranks[0], 100, 120), run(ranks[1], 150, 170);
  const ExchangeRecord record = exchange_record(ranks, true);
  EXPECT_EQ(record.ranks[0].waiting_ns, 20);
  EXPECT_EQ(record.ranks[0].transfer_ns(), 0);
}

// Two groups of two: each waits for its own. In the second step a rank lacks a collective.
TEST(RankTimes, GroupsAndStepsAreApart) {
  std::vector<RankSteps> ranks = {rank(0, 0, 2), rank(1, 1, 2), rank(2, 0, 2), rank(3, 1, 2)};
  run(ranks[0], 100, 200), run(ranks[2], 120, 200);
  run(ranks[1], 100, 900), run(ranks[3], 800, 900);
  run(ranks[0], 1100, 1200, 1), run(ranks[2], 1150, 1200, 1), run(ranks[2], 1300, 1400, 1);
  const ExchangeRecord record = exchange_record(ranks, true);
  EXPECT_EQ(record.ranks[0].waiting_ns, 20);
  EXPECT_EQ(record.ranks[1].waiting_ns, 700);
  EXPECT_EQ(record.ranks[2].waiting_ns, 0);
  EXPECT_EQ(record.ranks[3].waiting_ns, 0);
  ASSERT_EQ(record.collectives.size(), 1u);
  EXPECT_EQ(record.collectives[0].calls, 2);
}

TEST(RankTimes, OtherTensorsAreNoMeeting) {
  std::vector<RankSteps> ranks = {rank(0, 0, 2), rank(1, 0, 2)};
  ranks[1].kinds[0].bytes = 2000;
  run(ranks[0], 100, 200), run(ranks[1], 150, 200);
  const ExchangeRecord record = exchange_record(ranks, true);
  EXPECT_EQ(record.ranks[0].waiting_ns, 0);
  EXPECT_TRUE(record.collectives.empty());
  EXPECT_TRUE(exchange_record({}, true).ranks.empty());
}

// Without one clock, a collective ends on all ranks together.
TEST(RankTimes, WithoutAClockTheShortestWasLast) {
  std::vector<RankSteps> ranks = {rank(0, 0, 2), rank(1, 0, 2)};
  run(ranks[0], 5100, 5200), run(ranks[1], 40, 80);
  const ExchangeRecord record = exchange_record(ranks, false);
  EXPECT_EQ(record.ranks[0].waiting_ns, 60);
  EXPECT_EQ(record.ranks[1].waiting_ns, 0);
  EXPECT_EQ(record.ranks[0].late_ns, 0);
  EXPECT_EQ(record.ranks[1].late_ns, 60);
  EXPECT_EQ(record.ranks[1].last, 1);
  EXPECT_DOUBLE_EQ(record.collectives.at(0).transfer_ns, 40);
  EXPECT_DOUBLE_EQ(record.collectives.at(0).skew_ns, 60);
}

// Two all-reduces around an addition, on a clock that is 1000 ns ahead.
TEST(RankTimes, TheStepsOfARank) {
  Graph graph;
  Builder b(graph, ops::table());
  const Attrs attrs = {{"group", "tensor"}, {"ranks", int64_t{2}}};
  const ValueId x = b.state("x", {DType::kF32, Shape{16}}), y = b.call("all_reduce", {x}, attrs);
  const ValueId sum = b.call("add", {y, y});
  graph.outputs = {b.call("all_reduce", {sum}, attrs)};
  plan::PlainTarget target;
  std::vector<PredictedGraph> graphs;
  graphs.push_back({cost::program_graph("step", graph, 1, target), {}});
  InstrumentedStep step;
  step.wall_ns = 900, step.index = 3;
  // The second one runs at the same time as the addition for 20 ns.
  ProfiledRun& profiled = step.runs.emplace_back();
  profiled.spans = {{0, 100, 140}, {1, 150, 200}, {2, 180, 260}};
  profiled.called_ns = 5000;
  const std::vector<InstrumentedStep> steps = {step, step};
  const RankSteps made =
      rank_steps(graphs, steps, 1, {{"tensor", 4}}, [](double ns) { return ns - 1000; });
  EXPECT_EQ(made.steps, 2);
  EXPECT_EQ(made.step_ns, 1800);
  EXPECT_EQ(made.communication_ns, 2 * (40 + 80));
  EXPECT_EQ(made.overlapped_ns, 2 * 20);
  ASSERT_EQ(made.kinds.size(), 1u);
  EXPECT_EQ(made.kinds[0], (CollectiveKind{"all_reduce", "tensor", 4, 2, 64, 64, 0}));
  ASSERT_EQ(made.collectives.size(), 4u);
  EXPECT_EQ(made.collectives[1].step, 3);
  EXPECT_EQ(made.collectives[1].begin_ns, 4180);
  EXPECT_EQ(made.collectives[1].end_ns, 4260);
}

}  // namespace
}  // namespace ridge::record
