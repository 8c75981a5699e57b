// SPDX-License-Identifier: Apache-2.0
// The times of two ranks joined on the first one. The other rank is a process of its own; the steps
// of both are given.
#include "measure/run_exchange.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>

#include "base/host_name.h"
#include "cost/made_up_ceilings.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "plan/targets.h"
#include "runtime/rank_launcher.h"

namespace ridge::measure {
namespace {

using Body = void (*)(const runtime::Ranks& ranks);

void join_and(Body body, int rank, int port) {
  const runtime::RankPlace place{runtime::Launcher::kTorchrun, rank, 2, rank, 2, "127.0.0.1", port};
  backends::MachineOptions machine{.device = "cpu", .threads = 1};
  body(*runtime::join_ranks(place, {.data = 2}, {}, machine));
}

// Expectations of the other rank fail here by its exit status.
void on_two_ranks(Body body) {
  const int port = runtime::free_port();
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    try {
      join_and(body, 1, port);
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  join_and(body, 0, port);
  int status = 1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0) << "the other rank";
}

// Two all-reduces of 16 numbers around an addition.
std::vector<cost::ProgramGraph> program() {
  Graph graph;
  Builder b(graph, ops::table());
  const Attrs attrs = {{"group", "data"}, {"ranks", int64_t{2}}};
  const ValueId x = b.state("x", {DType::kF32, Shape{16}}), y = b.call("all_reduce", {x}, attrs);
  graph.outputs = {b.call("all_reduce", {b.call("add", {y, y})}, attrs)};
  const plan::PlainTarget target;
  return {cost::program_graph("step", graph, 1, target)};
}

// A step that begins at a time of the host's clock, and its first run 10 ns later. The second
// all-reduce begins 20 ns before the addition ends.
train::StepResult step_at(double begin_ns, double first_end_ns) {
  train::StepResult result;
  result.begin_ns = begin_ns;
  result.elapsed_ns = 900;
  record::ProfiledRun& run = result.profiles.emplace_back();
  run.called_ns = begin_ns + 10;
  run.wall_ns = 300;
  run.spans = {{0, 100, first_end_ns}, {1, 150, 200}, {2, 180, 260}};
  return result;
}

void tell(RankMeter& meter, int64_t index, const train::StepResult& result, bool timed = true) {
  meter.after_step({index, timed, result});
}

// Each rank writes what it was told into the events of its lane.
void write_events(const record::RunRecord& own, int64_t begin_ns, record::RankLane& lane) {
  lane.events = fmt::format("\"step {}\\\n begins at {}, losses {}\xff", own.step.timeline_step,
                            begin_ns, own.losses.size());
  lane.written = 3 + lane.rank;
  lane.dropped = 5 + 2 * lane.rank;
}

record::RunRecord run_of(int64_t rank, int64_t timeline_step) {
  record::RunRecord run;
  run.losses = {3, 2};
  run.step.timeline_step = timeline_step;
  run.memory.owned_bytes = 1000 + rank;
  run.memory.after.peak_bytes = 2000 + 3 * rank;
  return run;
}

void expect_slices(const record::RankLane& lane, const std::vector<std::array<int64_t, 3>>& want) {
  ASSERT_EQ(lane.slices.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(static_cast<int64_t>(lane.slices[i].op), want[i][0]) << i;
    EXPECT_EQ(lane.slices[i].begin_ns, want[i][1]) << i;
    EXPECT_EQ(lane.slices[i].end_ns, want[i][2]) << i;
  }
}

// The ranks of one host have one clock. The second rank's steps begin 40 ns later, and its first
// all-reduce is 10 ns longer.
void on_cpus(const runtime::Ranks& ranks) {
  const int rank = ranks.place().rank;
  RankMeter meter(ranks, false);
  for (const int64_t index : {0, 4})
    tell(meter, index,
         step_at(5000.2 + 1000.0 * static_cast<double>(index) + 40 * rank, 140 + 10.0 * rank));
  cost::Ceilings ceilings = cost::made_up_ceilings({{1 << 30, 8, 8}}, 50);
  ceilings.links = {{"test", 2, 2, 10}};
  const std::vector<cost::ProgramGraph> graphs = program();
  // The first rank's timeline is that of step 4; so are those of all.
  const record::ExchangeRecord got =
      meter.join(run_of(rank, rank == 0 ? 4 : 0), graphs, &ceilings, write_events);
  if (rank == 1) {
    EXPECT_TRUE(got.ranks.empty() && got.lanes.empty() && got.clock.empty());
    return;
  }
  EXPECT_EQ(got.clock, "the ranks of one host read the same clock");
  EXPECT_EQ(got.clock_error_ns, 0);
  ASSERT_EQ(got.ranks.size(), 2u);
  for (int64_t i = 0; i < 2; ++i) {
    const record::RankTimes& each = got.ranks[static_cast<size_t>(i)];
    EXPECT_EQ(each.rank, i);
    EXPECT_EQ(each.host, host_name());
    EXPECT_EQ(each.steps, 2);
    EXPECT_EQ(each.step_ns, 2 * 900);
    EXPECT_EQ(each.communication_ns, 2 * (40 + 10 * i + 80));
    EXPECT_EQ(each.overlapped_ns, 2 * 20);
    EXPECT_EQ(each.owned_bytes, 1000 + i);
    EXPECT_EQ(each.peak_bytes, 2000 + 3 * i);
    EXPECT_EQ(each.waiting_ns, i == 0 ? 2 * (40 + 40) : 0);
    EXPECT_EQ(each.late_ns, i == 0 ? 0 : 2 * (40 + 40));
    EXPECT_EQ(each.last, i == 0 ? 0 : 4);
  }
  ASSERT_EQ(got.collectives.size(), 1u);
  const record::CollectiveTimes& row = got.collectives[0];
  EXPECT_EQ(row.op, "all_reduce");
  EXPECT_EQ(row.group, "data");
  EXPECT_EQ(row.ranks, 2);
  EXPECT_EQ(row.calls, 4);
  EXPECT_EQ(row.bytes, 64);
  EXPECT_EQ(row.sent_bytes, 64);
  EXPECT_EQ(row.predicted_ns, 10 + 64 / 2);
  EXPECT_EQ(row.skew_ns, 40);
  ASSERT_EQ(got.lanes.size(), 2u);
  for (int64_t i = 0; i < 2; ++i) {
    const record::RankLane& lane = got.lanes[static_cast<size_t>(i)];
    const int64_t begin = 40 * i;
    EXPECT_EQ(lane.rank, i);
    EXPECT_EQ(lane.ops, (std::vector<std::string>{"all_reduce", "add"}));
    expect_slices(lane, {{0, begin + 110, begin + 150 + 10 * i},
                         {1, begin + 160, begin + 210},
                         {0, begin + 190, begin + 270}});
    EXPECT_EQ(lane.events, fmt::format("\"step 4\\\n begins at {}, losses 2\xff", begin));
    EXPECT_EQ(lane.written, 3 + i);
    EXPECT_EQ(lane.dropped, 5 + 2 * i);
  }
}

TEST(RankMeter, JoinsTheTimesOfRanksOnOneClock) { on_two_ranks(on_cpus); }

// The first collective ends on both GPUs together, 170 ns after the second rank's step began and
// 140 after the first one's, whatever their clocks say.
void on_gpus(const runtime::Ranks& ranks) {
  const int rank = ranks.place().rank;
  RankMeter meter(ranks, true);
  // The second rank lacks the step that the first one shows, so it shows its own first one.
  for (const int64_t index : {3, rank == 0 ? 7 : 5})
    tell(meter, index, step_at(rank == 0 ? 1e9 : 5000, 140 + 30.0 * rank));
  const record::ExchangeRecord got =
      meter.join(run_of(rank, rank == 0 ? 7 : 5), program(), nullptr, write_events);
  if (rank == 1) return;
  EXPECT_EQ(got.clock, "a collective is taken to end on all ranks together");
  EXPECT_EQ(got.clock_error_ns, 0);
  ASSERT_EQ(got.ranks.size(), 2u);
  // Only step 3 is one of both; there the shorter one was last.
  EXPECT_EQ(got.ranks[0].waiting_ns, 0);
  EXPECT_EQ(got.ranks[0].late_ns, 30);
  EXPECT_EQ(got.ranks[1].waiting_ns, 30);
  EXPECT_EQ(got.ranks[1].late_ns, 0);
  ASSERT_EQ(got.collectives.size(), 1u);
  EXPECT_EQ(got.collectives[0].calls, 2);
  EXPECT_EQ(got.collectives[0].predicted_ns, 0);
  ASSERT_EQ(got.lanes.size(), 2u);
  expect_slices(got.lanes[0], {{0, 140, 180}, {1, 190, 240}, {0, 220, 300}});
  expect_slices(got.lanes[1], {{0, 110, 180}, {1, 160, 210}, {0, 190, 270}});
  EXPECT_EQ(got.lanes[0].events, "\"step 7\\\n begins at 30, losses 2\xff");
  EXPECT_EQ(got.lanes[1].events, "\"step 3\\\n begins at 0, losses 2\xff");
}

TEST(RankMeter, TakesACollectiveOfGpusToEndOnAllTogether) { on_two_ranks(on_gpus); }

// Each step has its number as its time, so that the sum says which ones are kept.
void with_other_steps(const runtime::Ranks& ranks) {
  RankMeter meter(ranks, false);
  const auto step = [&](int64_t index, bool timed, bool skipped, bool overflowed, bool inspected) {
    train::StepResult result;
    result.elapsed_ns = index < 0 ? 1e6 : static_cast<double>(int64_t{1} << index);
    result.skipped = skipped, result.overflowed = overflowed;
    if (inspected) result.numerics.emplace();
    tell(meter, index, result, timed);
  };
  step(-1, true, false, false, false);
  step(0, true, false, false, false);  // kept
  step(1, false, false, false, false);
  step(2, true, true, false, false);
  step(3, true, true, true, false);  // kept
  step(4, true, false, false, true);
  step(5, true, true, true, true);
  // Without graphs there is no timeline, either.
  const record::ExchangeRecord got = meter.join(run_of(0, 0), {}, nullptr, write_events);
  if (!ranks.is_first()) return;
  ASSERT_EQ(got.ranks.size(), 2u);
  for (const record::RankTimes& each : got.ranks) {
    EXPECT_EQ(each.steps, 2);
    EXPECT_EQ(each.step_ns, 1 + 8);
    EXPECT_EQ(each.communication_ns, 0);
  }
  EXPECT_TRUE(got.collectives.empty());
  ASSERT_EQ(got.lanes.size(), 2u);
  EXPECT_TRUE(got.lanes[1].slices.empty());
  EXPECT_EQ(got.lanes[1].events, "\"step 0\\\n begins at 0, losses 2\xff");
}

TEST(RankMeter, KeepsWholeInstrumentedStepsAfterTheWarmUp) { on_two_ranks(with_other_steps); }

}  // namespace
}  // namespace ridge::measure
