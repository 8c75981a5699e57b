// SPDX-License-Identifier: Apache-2.0
// Kernels by name, from spans whose times are known.
#include "record/kernel_table.h"

#include <gtest/gtest.h>

namespace ridge::record {
namespace {

NodeRecord node(const char* op) {
  NodeRecord record;
  record.op = op;
  return record;
}

TEST(KernelTable, SumsSpansByTheNameOfTheirKernel) {
  StepRecord step;
  step.nodes = {node("matmul"), node("add"), node("matmul_backward")};
  step.graphs = {{"step", {0, 1, 2}}};
  TimelineRun run;
  run.run.kernels.resize(1);
  run.run.kernels[0].name = "gemm_64x64";
  run.run.spans = {{0, 0, 30, 0}, {1, 30, 40, -1}, {2, 40, 90, 0}, {1, 90, 110, -1}};
  step.timeline = {run};
  const std::vector<KernelRow> rows = kernel_rows(step);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "gemm_64x64");
  EXPECT_EQ(rows[0].op, "matmul, matmul_backward");
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_DOUBLE_EQ(rows[0].total_ns, 80);
  EXPECT_DOUBLE_EQ(rows[0].mean_ns(), 40);
  EXPECT_DOUBLE_EQ(rows[0].least_ns, 30);
  EXPECT_DOUBLE_EQ(rows[0].most_ns, 50);
  EXPECT_DOUBLE_EQ(rows[0].share, 80.0 / 110);
  EXPECT_EQ(rows[1].name, "add");
  EXPECT_DOUBLE_EQ(rows[1].total_ns, 30);
  EXPECT_TRUE(kernel_rows(StepRecord()).empty());
}

// Each step's kernels by phase; phases other than the three count as the optimizer's.
TEST(KernelTable, StepsHaveTheirPhases) {
  StepRecord step;
  step.nodes = {node("a"), node("b"), node("c")};
  const char* const phases[] = {"forward", "backward", "optimizer"};
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    step.nodes[i].phase = phases[i];
    step.nodes[i].samples_ns = {10.0 * static_cast<double>(i + 1), 20.0};
  }
  step.wall_samples_ns = {100, 200};
  step.step_numbers = {4, 7};
  const std::vector<StepPhases> all = step.phases();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].step, 4);
  EXPECT_EQ(all[1].step, 7);
  EXPECT_DOUBLE_EQ(all[0].wall_ns, 100);
  EXPECT_DOUBLE_EQ(all[0].forward_ns, 10);
  EXPECT_DOUBLE_EQ(all[0].backward_ns, 20);
  EXPECT_DOUBLE_EQ(all[0].optimizer_ns, 30);
}

}  // namespace
}  // namespace ridge::record
