// SPDX-License-Identifier: Apache-2.0
// Two folders' runs: which are compared, and what is called a difference.
#include "record/run_change.h"

#include <gtest/gtest.h>

namespace ridge::record {
namespace {

Summary times(double median, double low, double high, double coverage = 0.97) {
  return {.count = 1, .median = median, .low = low, .high = high, .coverage = coverage};
}

TEST(Change, IsADifferenceWhereIntervalsAreApart) {
  const Summary slow = times(20, 18, 22), fast = times(10, 9, 11), few = times(10, 9, 11, 0.9);
  EXPECT_EQ((Change{"", slow, fast}).verdict(), "faster");
  EXPECT_EQ((Change{"", fast, slow}).verdict(), "slower");
  EXPECT_EQ((Change{"", slow, few}).verdict(), "faster?");
  EXPECT_EQ((Change{"", few, slow}).verdict(), "slower?");
  EXPECT_EQ((Change{"", slow, times(17, 16, 18)}).verdict(), "noise");  // they touch
  EXPECT_EQ((Change{"", slow, {}}).verdict(), "only in A");
  EXPECT_EQ((Change{"", {}, fast}).verdict(), "only in B");
  EXPECT_EQ((Change{"", slow, fast}).ratio(), 0.5);
  EXPECT_EQ((Change{"", slow, fast}).difference(), -10);
}

SummaryRun run(const std::string& level, int64_t batch, std::vector<SummaryOperation> ops = {}) {
  SummaryRun made;
  made.setting.level = level;
  made.setting.batch_size = batch;
  made.setting.sequence = 8;
  made.by_op = std::move(ops);
  return made;
}

SummaryOperation op(const std::string& key, double median) {
  SummaryOperation made;
  made.key = key;
  made.samples = times(median, median, median);
  return made;
}

TEST(RunChanges, PairRunsOfEqualSettings) {
  SummaryFile a, b;
  a.runs = {run("baseline", 2), run("fused", 2), run("fused", 4)};
  b.runs = {run("fused", 4), run("fused", 2), run("compiled", 2)};
  const std::vector<RunChange> got = run_changes(a, b);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].before, &a.runs[1]);
  EXPECT_EQ(got[0].after, &b.runs[1]);
  EXPECT_EQ(got[1].before, &a.runs[2]);
  EXPECT_EQ(got[1].after, &b.runs[0]);
}

// An imported run has another level; its batch may be cut into micro-batches.
TEST(RunChanges, PairALoneRunWithThoseOfTheSameWork) {
  SummaryFile a, b;
  a.runs = {run("eager", 4)};
  b.runs = {run("fused", 2), run("compiled", 4), run("fused", 2)};
  b.runs[2].setting.micro_batches = 2;
  const std::vector<RunChange> got = run_changes(a, b);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].after, &b.runs[1]);
  EXPECT_EQ(got[1].after, &b.runs[2]);
  b.runs.resize(1);
  EXPECT_EQ(run_changes(a, b).size(), 1u);  // whatever they are
  a.runs.push_back(run("eager", 8));
  b.runs.push_back(run("fused", 8));
  EXPECT_TRUE(run_changes(a, b).empty());
}

TEST(RunChanges, OrderOperationsByTheLargerTime) {
  SummaryFile a, b;
  a.runs = {run("fused", 2, {op("copy", 1), op("matmul", 5), op("rope", 3)})};
  b.runs = {run("fused", 2, {op("matmul", 4), op("copy", 9), op("glu", 2)})};
  const std::vector<RunChange> got = run_changes(a, b);
  ASSERT_EQ(got.size(), 1u);
  std::vector<std::string> keys;
  for (const Change& each : got[0].ops) keys.push_back(each.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"copy", "matmul", "rope", "glu"}));
  EXPECT_EQ(got[0].ops[1].before.median, 5);
  EXPECT_EQ(got[0].ops[1].after.median, 4);
  EXPECT_TRUE(got[0].has_same_ops());  // two of four
  b.runs[0].by_op.push_back(op("norm", 1));
  EXPECT_FALSE(run_changes(a, b)[0].has_same_ops());
}

}  // namespace
}  // namespace ridge::record
