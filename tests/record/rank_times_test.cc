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

// A collective of one rank is none; the others are of kinds, two of them of one group.
TEST(RankTimes, CollectivesAreOfKinds) {
  Graph graph;
  Builder b(graph, ops::table());
  const auto attrs = [](const char* group, int64_t ranks) {
    return Attrs{{"group", group}, {"ranks", ranks}};
  };
  const ValueId x = b.state("x", {DType::kF32, Shape{16}});
  const ValueId alone = b.call("all_reduce", {x}, attrs("data", 1));
  const ValueId more = b.call("all_gather", {alone}, attrs("data", 4));
  const ValueId same = b.call("all_reduce", {x}, attrs("tensor", 2));
  graph.outputs = {more, b.call("all_reduce", {same}, attrs("tensor", 2))};
  plan::PlainTarget target;
  std::vector<PredictedGraph> graphs;
  graphs.push_back({cost::program_graph("step", graph, 2, target), {}});
  graphs[0].predictions.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    graphs[0].predictions[i].ns = 10.0 * static_cast<double>(i + 1);
  InstrumentedStep step;
  step.wall_ns = 100.6, step.index = 5;
  // Three runs are recorded of a graph that runs twice.
  for (int run = 0; run < 3; ++run) {
    ProfiledRun& profiled = step.runs.emplace_back();
    profiled.spans = {{0, 0, 10}, {1, 10, 30.4}, {2, 30, 35}, {3, 36, 38}};
    profiled.called_ns = 1000 * run;
  }
  const RankSteps made =
      rank_steps(graphs, std::vector<InstrumentedStep>{step}, 2, {}, [](double ns) { return ns; });
  EXPECT_EQ(made.rank, 2);
  EXPECT_EQ(made.steps, 1);
  EXPECT_EQ(made.step_ns, 101);
  ASSERT_EQ(made.kinds.size(), 3u);
  EXPECT_EQ(made.kinds[0].op, "all_gather");
  EXPECT_EQ(made.kinds[0].group, "data");
  EXPECT_EQ(made.kinds[0].first_rank, 0);
  EXPECT_EQ(made.kinds[0].ranks, 4);
  EXPECT_EQ(made.kinds[0].bytes, 256) << "what it gathers";
  EXPECT_EQ(made.kinds[0].predicted_ns, 20);
  EXPECT_EQ(made.kinds[1], (CollectiveKind{"all_reduce", "tensor", 0, 2, 64, 64, 30}));
  EXPECT_EQ(made.kinds[2], (CollectiveKind{"all_reduce", "tensor", 0, 2, 64, 64, 40}));
  ASSERT_EQ(made.collectives.size(), 6u) << "of two runs";
  EXPECT_EQ(made.collectives[0].kind, 0u);
  EXPECT_EQ(made.collectives[0].end_ns - made.collectives[0].begin_ns, 20);
  EXPECT_EQ(made.collectives[3].kind, 0u);
  EXPECT_EQ(made.collectives[3].begin_ns, 1010);
  EXPECT_EQ(made.communication_ns, 2 * (20 + 5 + 2));
  EXPECT_EQ(made.overlapped_ns, 0) << "the one of one rank ends before";
}

TEST(RankTimes, IntervalsHaveTimeInCommon) {
  using Intervals = std::vector<Interval>;
  EXPECT_EQ(common_ns(Intervals{}, Intervals{{0, 10}}), 0);
  EXPECT_EQ(common_ns(Intervals{{0, 10}}, Intervals{}), 0);
  EXPECT_EQ(common_ns(Intervals{{0, 10}}, Intervals{{10, 20}}), 0);
  EXPECT_EQ(common_ns(Intervals{{0, 11}}, Intervals{{10, 20}}), 1);
  EXPECT_EQ(common_ns(Intervals{{5, 40}}, Intervals{{0, 10}, {10, 12}, {11, 15}, {30, 35}}), 15);
  EXPECT_EQ(common_ns(Intervals{{5, 8}, {6, 9}}, Intervals{{0, 10}, {2, 3}}), 6);
  EXPECT_EQ(common_ns(Intervals{{25, 32}}, Intervals{{0, 10}, {20, 30}, {31, 50}}), 6);
}

// A step of two runs: an addition beside two collectives.
StepRecord timeline() {
  StepRecord step;
  for (const char* op : {"add", "all_reduce", "reduce_scatter"}) {
    NodeRecord& node = step.nodes.emplace_back();
    node.op = op;
  }
  step.graphs.push_back({"first", {0, -1, 1}});
  step.graphs.push_back({"second", {2, 0}});
  step.timeline.resize(2);
  step.timeline[0].graph = 0, step.timeline[0].begin_ns = 100.4;
  step.timeline[0].run.spans = {{0, 1, 5}, {2, 5, 9}};
  step.timeline[1].graph = 1, step.timeline[1].begin_ns = 200;
  step.timeline[1].run.spans = {{0, 0, 30}, {1, 30, 40.7}};
  return step;
}

TEST(RankLanes, HaveASliceForEachKernel) {
  const RankLane lane = rank_lane(timeline(), 3, 1'000'000);
  EXPECT_EQ(lane.rank, 3);
  EXPECT_EQ(lane.ops, (std::vector<std::string>{"add", "all_reduce", "reduce_scatter"}));
  ASSERT_EQ(lane.slices.size(), 4u);
  const std::vector<RankLane::Slice> want = {{0, 1'000'101, 1'000'105},
                                             {1, 1'000'105, 1'000'109},
                                             {2, 1'000'200, 1'000'230},
                                             {0, 1'000'230, 1'000'241}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lane.slices[i].op, want[i].op) << i;
    EXPECT_EQ(lane.slices[i].begin_ns, want[i].begin_ns) << i;
    EXPECT_EQ(lane.slices[i].end_ns, want[i].end_ns) << i;
  }
}

TEST(RankLanes, HaveAFirstExchange) {
  StepRecord step = timeline();
  EXPECT_EQ(first_exchange_ns(step), 109);
  step.timeline[0].run.spans.pop_back();
  EXPECT_EQ(first_exchange_ns(step), 230);
  step.nodes[2].op = "an unknown op";
  EXPECT_EQ(first_exchange_ns(step), std::nullopt);
}

}  // namespace
}  // namespace ridge::record
