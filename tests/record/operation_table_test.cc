// SPDX-License-Identifier: Apache-2.0
// Rows by op, scope and phase: the sum of the children is the parent.
#include "record/operation_table.h"

#include <gtest/gtest.h>

#include <map>

#include "record/measured_step.h"

namespace ridge::record {
namespace {

StepRecord measured(const MeasuredStep& program, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<InstrumentedStep> steps;
  for (int i = 0; i < 9; ++i) steps.push_back(program.draw(engine));
  return make_step_record(program.graphs, steps);
}

void expect_adds_up(const OperationTable& table) {
  OperationRow sum;
  double share = 0;
  for (const OperationRow& row : table.rows) {
    if (!row.is_leaf) continue;
    sum.nodes += row.nodes;
    add_amounts(sum, row);
    share += row.share;
  }
  EXPECT_EQ(sum.nodes, table.total.nodes) << table.title;
  EXPECT_EQ(sum.calls, table.total.calls) << table.title;
  EXPECT_EQ(sum.time_ns, table.total.time_ns) << table.title;
  EXPECT_EQ(sum.work, table.total.work) << table.title;
  EXPECT_EQ(sum.read_bytes, table.total.read_bytes) << table.title;
  EXPECT_EQ(sum.written_bytes, table.total.written_bytes) << table.title;
  EXPECT_NEAR(share, table.total.share, 1e-12) << table.title;
}

// Siblings stand in the order of their times, the longest first, and of their names if those are
// equal.
void expect_longest_first(const OperationTable& table) {
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const OperationRow& row = table.rows[i];
    size_t next = i + 1;
    while (next < table.rows.size() && table.rows[next].depth > row.depth) ++next;
    if (next == table.rows.size() || table.rows[next].depth < row.depth) continue;
    const OperationRow& sibling = table.rows[next];
    EXPECT_TRUE(row.time_ns > sibling.time_ns ||
                (row.time_ns == sibling.time_ns && row.key < sibling.key))
        << table.title << ": " << row.key << " before " << sibling.key;
  }
}

TEST(OperationTable, RowsAreInTheOrderOfTheirTimes) {
  for (unsigned seed = 1; seed < 20; ++seed) {
    MeasuredStep program(1);
    StepRecord step = measured(program, seed);
    for (const bool equal : {false, true}) {
      for (NodeRecord& node : step.nodes)
        if (equal) node.time_ns = 0;
      for (const OperationTable& table :
           {table_by_op(step, nullptr), table_by_scope(step, nullptr),
            table_by_phase(step, nullptr), table_by_place(step, nullptr)})
        expect_longest_first(table);
    }
  }
}

TEST(OperationTable, RowsAddUpToTheTotalInEveryTable) {
  for (unsigned seed = 1; seed < 20; ++seed) {
    MeasuredStep program(1 + seed % 3);
    StepRecord step = measured(program, seed);
    for (const OperationTable& table :
         {table_by_op(step, nullptr), table_by_scope(step, nullptr), table_by_phase(step, nullptr),
          table_by_place(step, nullptr)}) {
      expect_adds_up(table);
      EXPECT_EQ(table.total.time_ns, step.kernel_ns);
    }
  }
}

// Each branch of the tree is the exact sum of the rows one level below it.
TEST(OperationTable, ChildrenOfAScopeAreTheirParent) {
  MeasuredStep program(2);
  OperationTable table = table_by_scope(measured(program, 3), nullptr);
  int branches = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    if (table.rows[i].is_leaf) continue;
    ++branches;
    int64_t time = 0, calls = 0;
    for (size_t k = i + 1; k < table.rows.size() && table.rows[k].depth > table.rows[i].depth; ++k)
      if (table.rows[k].depth == table.rows[i].depth + 1) {
        time += table.rows[k].time_ns;
        calls += table.rows[k].calls;
      }
    EXPECT_EQ(time, table.rows[i].time_ns) << table.rows[i].key;
    EXPECT_EQ(calls, table.rows[i].calls) << table.rows[i].key;
  }
  EXPECT_EQ(branches, 1);  // layer.*: attention, mlp and the residual sums
}

TEST(OperationTable, LayersFold) {
  EXPECT_EQ(folded_scope("layer.3/attention"), "layer.*/attention");
  EXPECT_EQ(folded_scope("layer.12"), "layer.*");
  EXPECT_EQ(folded_scope("block.0/layer.1/mlp"), "block.*/layer.*/mlp");
  EXPECT_EQ(folded_scope("model.v2/x"), "model.v2/x");
  EXPECT_EQ(folded_scope("a.1b/c."), "a.1b/c.");
  EXPECT_EQ(folded_scope(""), "");
  MeasuredStep program(1);
  std::map<std::string, OperationRow> rows;
  for (const OperationRow& row : table_by_scope(measured(program, 3), nullptr).rows)
    rows[row.key] = row;
  EXPECT_EQ(rows.at("layer.*").nodes, 3 * 4);
  EXPECT_EQ(rows.at("attention").nodes, 3 * 2);
  EXPECT_EQ(rows.at("(itself)").nodes, 3);
}

TEST(OperationTable, RatesFollowFromTheRow) {
  OperationRow row;
  EXPECT_EQ(row.intensity(), 0);
  EXPECT_EQ(row.flops_per_ns(), 0);
  EXPECT_EQ(row.error(), 0);
  row.work = {100, 250, 0};
  row.read_bytes = 60;
  row.written_bytes = 40;
  row.time_ns = 50;
  row.exclusive_ns = 50;
  row.predicted_ns = 40;
  EXPECT_DOUBLE_EQ(row.intensity(), 2.5);
  EXPECT_DOUBLE_EQ(row.flops_per_ns(), 5);
  EXPECT_DOUBLE_EQ(row.bytes_per_ns(), 2);
  EXPECT_DOUBLE_EQ(row.limit_share(), 0.8);
  EXPECT_NEAR(row.error(), -0.2, 1e-12);
}

TEST(OperationTable, ErrorShareSumsTheSizesOfTheErrors) {
  OperationTable table;
  table.rows.resize(3);
  table.rows[0].exclusive_ns = 100, table.rows[0].predicted_ns = 80;
  table.rows[1].exclusive_ns = 100, table.rows[1].predicted_ns = 120;
  table.rows[2].exclusive_ns = 500, table.rows[2].is_leaf = false;  // a sum of other rows
  table.total.exclusive_ns = 200;
  EXPECT_DOUBLE_EQ(total_absolute_error(table), 0.2);
}

TEST(OperationTable, MoreThanAllOfTheTimeIsWarnedOf) {
  MeasuredStep program(1);
  StepRecord step = measured(program, 3);
  EXPECT_TRUE(table_by_op(step, nullptr).warnings.empty());
  step.wall_ns = step.kernel_ns / 2;
  OperationTable table = table_by_phase(step, nullptr);
  EXPECT_GT(table.total.share, 1);
  ASSERT_FALSE(table.warnings.empty());
  EXPECT_NE(table.warnings.back().find("'total' takes 200"), std::string::npos)
      << table.warnings.back();
}

TEST(OperationTable, ARateOverTheMeasuredPeakIsWarnedOf) {
  MeasuredStep program(1);
  StepRecord step = measured(program, 3);
  cost::Ceilings ceilings;
  ceilings.bandwidth = {{1 << 30, 20, 20}};
  ceilings.products.emplace_back();
  ceilings.products[0].peak_flops_per_ns = 1e-9;
  EXPECT_FALSE(table_by_op(step, &ceilings).warnings.empty());
  ceilings.products[0].peak_flops_per_ns = 1e9;
  EXPECT_TRUE(table_by_op(step, &ceilings).warnings.empty());
}

TEST(OperationTable, TheBoundIsWhatMostOfThePredictedTimeGoesTo) {
  MeasuredStep program(1);
  for (const OperationRow& row : table_by_op(measured(program, 3), nullptr).rows)
    EXPECT_EQ(row.bound, row.key == "matmul" ? cost::Bound::kCompute : cost::Bound::kMemory)
        << row.key;
}

}  // namespace
}  // namespace ridge::record
