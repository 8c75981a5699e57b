// SPDX-License-Identifier: Apache-2.0
// Counts of a whole step and of one module in all layers, against sums over kernels and by hand.
#include "record/run_counts.h"

#include <gtest/gtest.h>

#include <vector>

#include "record/measured_step.h"

namespace ridge::record {
namespace {

constexpr int64_t kRepeat = 3, kLayers = 3;

TEST(RunCounts, AreTheSumsOfTheKernels) {
  const MeasuredStep program(kRepeat);
  std::vector<cost::ProgramGraph> graphs;
  for (const PredictedGraph& each : program.graphs) graphs.push_back(each.run);
  RunRecord run;
  count_graphs(graphs, nullptr, run);
  NodeRecord sum;
  for (const NodeRecord& node : make_step_record(program.graphs, {}).nodes) {
    sum.calls += node.calls;
    sum.work += node.work;
    sum.read_bytes += node.read_bytes;
    sum.written_bytes += node.written_bytes;
  }
  EXPECT_EQ(run.launches, sum.calls);
  EXPECT_EQ(run.executed, sum.work);
  EXPECT_EQ(run.planned_bytes, sum.read_bytes + sum.written_bytes);
  // The bytes of x (4 x 8 floats), its image, the weight (8 x 8), and the sum of its gradients, old
  // and new.
  const int64_t accumulate = 4 * (32 + 32 + 3 * 64);
  // The weight, the gradient and the moment, the last two old and new.
  const int64_t update = 4 * 5 * 64;
  EXPECT_EQ(run.compulsory_bytes, kRepeat * accumulate + update);
}

// A product of [4,8] and [8,8], and exp of its result.
TEST(ModuleRecord, IsTheSumOfItsLayers) {
  const MeasuredStep program(kRepeat);
  std::mt19937 engine(5);
  const StepRecord step = make_step_record(program.graphs, std::vector(3, program.draw(engine)));
  const ModuleRecord module = module_record("attention", program.graphs, step);
  EXPECT_EQ(module.name, "attention");
  EXPECT_EQ(module.launches, kRepeat * kLayers * 2);
  EXPECT_EQ(module.work.macs, kRepeat * kLayers * 4 * 8 * 8);
  EXPECT_EQ(module.planned_bytes, kRepeat * kLayers * 4 * (32 + 64 + 32 + 32 + 32));
  EXPECT_EQ(module.compulsory_bytes, kRepeat * kLayers * 4 * (32 + 64 + 32));
  int64_t time_ns = 0;
  double predicted_ns = 0;
  for (const NodeRecord& node : step.nodes)
    if (node.scope.starts_with("layer.") && node.scope.ends_with("/attention")) {
      time_ns += node.time_ns;
      predicted_ns += static_cast<double>(kRepeat * (100 + node.node));
    }
  EXPECT_GT(time_ns, 0);
  EXPECT_EQ(module.time_ns, time_ns);
  EXPECT_DOUBLE_EQ(module.predicted_ns, predicted_ns);
}

}  // namespace
}  // namespace ridge::record
