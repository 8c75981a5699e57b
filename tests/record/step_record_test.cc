// SPDX-License-Identifier: Apache-2.0
// Records from invented clock readings, whose results are known by hand or by invariant sums.
#include "record/step_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "record/measured_step.h"

namespace ridge::record {
namespace {

StepRecord record_of(const MeasuredStep& program, int steps, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<InstrumentedStep> all;
  for (int i = 0; i < steps; ++i) all.push_back(program.draw(engine));
  return make_step_record(program.graphs, all);
}

TEST(StepRecord, BusyIdleAndHostAreTheWall) {
  for (int64_t repeat : {1, 3})
    for (int steps : {1, 2, 3, 4, 7, 20}) {
      MeasuredStep program(repeat);
      StepRecord record = record_of(program, steps, static_cast<unsigned>(steps));
      int64_t busy = 0;
      for (const NodeRecord& node : record.nodes) busy += node.time_ns;
      EXPECT_EQ(busy, record.kernel_ns);
      EXPECT_EQ(record.busy_ns() + record.idle_ns + record.host_ns, record.wall_ns);
      EXPECT_GE(record.idle_ns, 0);
      EXPECT_GT(record.host_ns, 0);
    }
}

TEST(StepRecord, ViewsHaveNoRecordAndRepeatsCount) {
  MeasuredStep program(3);
  StepRecord record = record_of(program, 4, 1);
  size_t launched = 0;
  for (const PredictedGraph& each : program.graphs)
    for (const cost::NodeCost& cost : each.run.costed->costs) launched += cost.launches > 0;
  ASSERT_EQ(record.nodes.size(), launched);
  EXPECT_LT(launched, program.accumulate.nodes.size() + program.update.nodes.size());
  // The first node is a GEMM of [4,8] and [8,8], run three times per step.
  EXPECT_EQ(record.nodes[0].op, "matmul");
  EXPECT_EQ(record.nodes[0].scope, "layer.0/attention");
  EXPECT_EQ(record.nodes[0].shape, "f32[4,8]");
  EXPECT_EQ(record.nodes[0].calls, 3);
  EXPECT_EQ(record.nodes[0].work.macs, 3 * 4 * 8 * 8);
  EXPECT_EQ(record.nodes[0].read_bytes, 3 * 4 * (4 * 8 + 8 * 8));
  EXPECT_DOUBLE_EQ(record.nodes[0].predicted_ns, 300);
  EXPECT_EQ(record.nodes.back().graph, "update");
  EXPECT_EQ(record.nodes.back().calls, 1);
}

TEST(StepRecord, NodesNameTheirOperandsAndProducers) {
  MeasuredStep program(3);
  const StepRecord record = record_of(program, 4, 1);
  EXPECT_EQ(record.nodes[0].inputs, "f32[4,8], f32[8,8]");
  EXPECT_TRUE(record.nodes[0].producers.empty());
  // Only the first GEMM of a graph brings new parameters.
  EXPECT_EQ(record.nodes[0].parameters, 64);
  EXPECT_EQ(record.nodes[2].op, "matmul");
  EXPECT_EQ(record.nodes[2].parameters, 0);
  EXPECT_EQ(record.nodes[2].producers, std::vector<NodeId>{1});
  // The sum of a layer reads the product directly and through two views.
  EXPECT_EQ(record.nodes[3].op, "add");
  EXPECT_EQ(record.nodes[3].producers, std::vector<NodeId>{2});
  EXPECT_EQ(record.nodes[4].producers, std::vector<NodeId>{record.nodes[3].node});
}

TEST(StepRecord, ScopesHaveTheBytesOfOneKernel) {
  MeasuredStep program(3);
  const StepRecord record = record_of(program, 4, 1);
  const auto found =
      std::find_if(record.scopes.begin(), record.scopes.end(),
                   [](const ScopeBytes& each) { return each.scope == "layer.1/attention"; });
  ASSERT_NE(found, record.scopes.end());
  // x and its image, 4 x 8 floats each, and the weight of 8 x 8, three times a step.
  EXPECT_EQ(found->compulsory_bytes, 3 * 4 * (2 * 4 * 8 + 8 * 8));
}

// Constant readings: every estimate must be that constant.
TEST(StepRecord, ConstantStepsComeOutUnchanged) {
  MeasuredStep program(2);
  std::mt19937 engine(5);
  InstrumentedStep one = program.draw(engine);
  double at = 0;
  for (ProfiledRun& run : one.runs) {
    at = 0;
    for (Span& span : run.spans) {
      span = {span.node, at + 10, at + 110};
      at += 110;
    }
    run.wall_ns = at + 20;
  }
  one.wall_ns = 100000;
  StepRecord record = make_step_record(program.graphs, std::vector<InstrumentedStep>(9, one));
  for (const NodeRecord& node : record.nodes)
    EXPECT_EQ(node.time_ns, node.graph == "update" ? 100 : 200) << node.op;
  EXPECT_EQ(record.wall_ns, 100000);
  EXPECT_EQ(record.optimizer.low, record.optimizer.high);
  EXPECT_EQ(record.optimizer.median, 300);
  EXPECT_EQ(record.backward.median, 2 * 200);  // a product and its sum, each twice
  EXPECT_EQ(record.forward.median,
            static_cast<double>(record.kernel_ns) - record.backward.median - 300);
  EXPECT_EQ(
      record.idle_ns,
      static_cast<int64_t>(10 * (2 * one.runs[0].spans.size() + one.runs[2].spans.size()) + 60));
  ASSERT_EQ(record.timeline.size(), 3u);
  EXPECT_EQ(record.timeline[0].graph, 0);
  EXPECT_EQ(record.timeline[2].graph, 1);
}

// Where runs lie in the step: the instrument's time is cut out before and between them.
TEST(StepRecord, TheTimelineLeavesTheInstrumentOut) {
  MeasuredStep program(2);
  std::mt19937 engine(8);
  InstrumentedStep step = program.draw(engine);
  step.begin_ns = 1e6;
  step.index = 12;
  double clock = step.begin_ns, expected = 0;
  std::vector<double> begins;
  for (size_t r = 0; r < step.runs.size(); ++r) {
    const double host = 100.0 * static_cast<double>(r + 1);
    clock += host;
    expected += host;
    begins.push_back(expected);
    step.runs[r].called_ns = clock;
    step.runs[r].instrument_ns = 5000;
    clock += step.runs[r].instrument_ns + step.runs[r].wall_ns;
    expected += step.runs[r].wall_ns;
  }
  step.wall_ns = expected + 40;
  const StepRecord record =
      make_step_record(program.graphs, std::vector<InstrumentedStep>(5, step));
  EXPECT_EQ(record.timeline_step, 12);
  EXPECT_EQ(record.timeline_wall_ns, step.wall_ns);
  ASSERT_EQ(record.timeline.size(), begins.size());
  for (size_t r = 0; r < begins.size(); ++r)
    EXPECT_NEAR(record.timeline[r].begin_ns, begins[r], 1e-6) << r;
}

// Exclusive times of the nodes of one graph.
std::map<NodeId, int64_t> exclusive_times(const StepRecord& record, const std::string& graph) {
  std::map<NodeId, int64_t> times;
  for (const NodeRecord& node : record.nodes)
    if (node.graph == graph) times[node.node] = node.exclusive_ns;
  return times;
}

// Two kernels at once, then three, then one; computed by hand.
TEST(StepRecord, MomentsAreDividedAmongTheKernelsThatShareThem) {
  MeasuredStep program(1);
  std::mt19937 engine(5);
  InstrumentedStep one = program.draw(engine);
  std::vector<Span>& spans = one.runs[0].spans;
  ASSERT_GE(spans.size(), 3u);
  spans.resize(3);
  spans[0] = {spans[0].node, 100, 400};
  spans[1] = {spans[1].node, 200, 500};
  spans[2] = {spans[2].node, 300, 900};
  one.runs[0].wall_ns = 1000;
  one.runs[1].spans.clear();
  StepRecord record = make_step_record(program.graphs, std::vector<InstrumentedStep>(5, one));
  const auto exclusive_ns = exclusive_times(record, "accumulate");
  EXPECT_EQ(exclusive_ns.at(spans[0].node), 100 + 50 + 33);
  EXPECT_EQ(exclusive_ns.at(spans[1].node), 50 + 33 + 50);
  EXPECT_EQ(exclusive_ns.at(spans[2].node), 33 + 50 + 400);
  EXPECT_EQ(record.busy_ns(), 800);
  EXPECT_EQ(record.idle_before_first_ns, 100);
}

// Kernels that begin, end and overlap at random, in an order of the profiler's own, against a count
// of the kernels that run in each nanosecond.
TEST(StepRecord, OverlapsAreThoseOfEachNanosecond) {
  constexpr int kEnd = 600;
  MeasuredStep program(1);
  for (unsigned seed = 1; seed < 30; ++seed) {
    std::mt19937 engine(seed);
    std::uniform_int_distribution<int> at(0, kEnd);
    InstrumentedStep one = program.draw(engine);
    std::vector<Span>& spans = one.runs[0].spans;
    std::vector<std::vector<size_t>> running(kEnd);
    for (size_t i = 0; i < spans.size(); ++i) {
      const auto [begin, end] = std::minmax({at(engine), at(engine)});
      spans[i] = {spans[i].node, static_cast<double>(begin), static_cast<double>(end)};
      for (int ns = begin; ns < end; ++ns) running[static_cast<size_t>(ns)].push_back(i);
    }
    one.runs[0].wall_ns = kEnd;
    one.runs[1].spans.clear();
    int64_t busy = 0;
    std::map<NodeId, double> exclusive_ns;
    for (const std::vector<size_t>& moment : running) {
      busy += !moment.empty();
      for (size_t i : moment)
        exclusive_ns[spans[i].node] += 1.0 / static_cast<double>(moment.size());
    }
    const StepRecord record = make_step_record(program.graphs, std::vector(3, one));
    EXPECT_EQ(record.busy_ns(), busy) << seed;
    for (const auto& [node, ns] : exclusive_times(record, "accumulate"))
      EXPECT_NEAR(static_cast<double>(ns) + 0.5, exclusive_ns[node], 0.5 + 1e-9) << seed;
  }
}

// A kernel without duration, among many that the sort may reorder: the others keep their times.
TEST(StepRecord, AnEmptySpanTakesNothingFromTheOthers) {
  MeasuredStep program(1);
  std::mt19937 engine(5);
  InstrumentedStep one = program.draw(engine);
  std::vector<Span>& spans = one.runs[0].spans;
  const Span first = {spans[0].node, 0, 100}, empty = {spans[1].node, 100, 100},
             last = {spans[2].node, 0, 100};
  spans.assign({first});
  for (int i = 0; i < 40; ++i) spans.push_back(empty);
  for (int i = 1; i < 40; ++i) spans.push_back({last.node, 100.0 * i, 100.0 * (i + 1)});
  one.runs[0].wall_ns = 4000;
  one.runs[1].spans.clear();
  StepRecord record = make_step_record(program.graphs, std::vector<InstrumentedStep>(3, one));
  const auto exclusive_ns = exclusive_times(record, "accumulate");
  EXPECT_EQ(exclusive_ns.at(first.node), 100);
  EXPECT_EQ(exclusive_ns.at(empty.node), 0);
  EXPECT_EQ(exclusive_ns.at(last.node), 3900);
}

// Counted over every run of every step, including outliers.
TEST(StepRecord, DroppedRecordsAreCounted) {
  MeasuredStep program(2);
  std::mt19937 engine(5);
  std::vector<InstrumentedStep> steps(5, program.draw(engine));
  EXPECT_EQ(make_step_record(program.graphs, steps).dropped, 0);
  steps[0].runs[0].dropped = 3;
  steps[0].runs[2].dropped = 40;
  steps[4].runs[1].dropped = 500;
  EXPECT_EQ(make_step_record(program.graphs, steps).dropped, 543);
}

// One step in which the machine was busy with something else must not change the times.
TEST(StepRecord, AnOutlyingStepIsOutsideTheMiddleHalf) {
  MeasuredStep program(1);
  std::mt19937 engine(5);
  InstrumentedStep usual = program.draw(engine);
  std::vector<InstrumentedStep> steps(8, usual);
  StepRecord calm = make_step_record(program.graphs, steps);
  for (Span& span : steps[3].runs[0].spans) span.end_ns += 1e9;
  steps[3].runs[0].wall_ns += 2e10;
  steps[3].wall_ns += 2e10;
  StepRecord disturbed = make_step_record(program.graphs, steps);
  for (size_t i = 0; i < calm.nodes.size(); ++i)
    EXPECT_EQ(calm.nodes[i].time_ns, disturbed.nodes[i].time_ns);
  EXPECT_EQ(calm.wall_ns, disturbed.wall_ns);
  EXPECT_EQ(disturbed.wall_samples_ns[3], usual.wall_ns + 2e10);
}

TEST(StepRecord, WithoutStepsTheCountsStand) {
  MeasuredStep program(2);
  StepRecord record = make_step_record(program.graphs, {});
  EXPECT_FALSE(record.nodes.empty());
  EXPECT_EQ(record.wall_ns, 0);
  EXPECT_TRUE(record.timeline.empty());
  EXPECT_GT(record.nodes[0].work.flops, 0);
}

}  // namespace
}  // namespace ridge::record
