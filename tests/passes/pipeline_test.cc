// SPDX-License-Identifier: Apache-2.0
// The pipeline: its order, its levels, its switches, and what it records of each pass.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

std::string refusal(std::string_view level, std::string_view switches) {
  try {
    Selection selection(level, switches);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Pipeline, ListsEachPassOnceAndStagesInOrder) {
  std::set<std::string_view> names;
  Stage stage = Stage::kForward;
  for (const Pass* pass : pipeline()) {
    EXPECT_TRUE(names.insert(pass->name).second) << pass->name;
    EXPECT_GE(pass->stage, stage) << pass->name;
    EXPECT_FALSE(pass->summary.empty()) << pass->name;
    stage = pass->stage;
  }
}

TEST(Levels, AreCumulative) {
  std::vector<std::string> names;
  std::set<std::string> on;
  for (const Level& level : levels()) {
    names.emplace_back(level.name);
    EXPECT_FALSE(level.summary.empty());
    Selection selection(level.name, "");
    EXPECT_EQ(selection.level(), level.name);
    for (std::string_view added : level.adds) {
      EXPECT_TRUE(on.insert(std::string(added)).second) << added << " is added twice";
    }
    for (const std::string& name : on)
      EXPECT_TRUE(selection.has(name)) << level.name << " lacks " << name;
    std::string text = selection.str();
    EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), ',')) + 1, on.size())
        << text;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"baseline", "fused", "kernels", "compiled"}));
}

TEST(Levels, NameOnlyPassesAndOptionsThatThereAre) {
  for (const Level& level : levels())
    for (std::string_view added : level.adds)
      EXPECT_EQ(refusal("baseline", fmt::format("+{}", added)), "");
}

TEST(Selection, SwitchesPassesOnAndOff) {
  EXPECT_TRUE(Selection("baseline", "+recompute").has("recompute"));
  EXPECT_TRUE(Selection("baseline", "recompute").has("recompute"));
  EXPECT_FALSE(Selection("compiled", "-fuse_glu").has("fuse_glu"));
  EXPECT_FALSE(Selection("compiled", "").has("recompute"));
  Selection both("fused", "+recompute,-merge_qkv,+fuse_glu");
  EXPECT_TRUE(both.has("recompute") && both.has("fuse_glu") && both.has("flash_attention"));
  EXPECT_FALSE(both.has("merge_qkv"));
  // The last word counts.
  EXPECT_FALSE(Selection("fused", "+recompute,-recompute").has("recompute"));
  EXPECT_FALSE(Selection("fused", "-tune_gemm").has("tune_gemm"));
}

TEST(Selection, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("fastest", ""),
            "[level] expected one of baseline, fused, kernels, compiled, got 'fastest'");
  EXPECT_EQ(refusal("", ""), "[level] expected one of baseline, fused, kernels, compiled, got ''");
  std::string unknown = refusal("fused", "+flash_atention");
  EXPECT_NE(unknown.find("unknown pass \"flash_atention\" (did you mean flash_attention?); "
                         "expected one of store_bf16, "),
            std::string::npos)
      << unknown;
  EXPECT_NE(unknown.find("tune_gemm"), std::string::npos) << "options share the switches";
  EXPECT_NE(refusal("fused", "+recompute,-nothing"), "");
  EXPECT_NE(refusal("fused", "++recompute"), "");
}

TEST(Selection, RefusesToGoWithoutWhatAllNeed) {
  for (const char* name : {"expand", "legalize"}) {
    std::string what = refusal("compiled", fmt::format("-{}", name));
    EXPECT_NE(what.find(fmt::format("'{}' cannot be turned off", name)), std::string::npos) << what;
  }
}

TEST(RunStage, RecordsEachSelectedPassWithItsCosts) {
  models::ForwardGraph forward = one_layer_forward();
  PassContext context{ops::table(), target(), forward.load};
  std::vector<cost::PassRecord> records;
  Selection selection("fused", "");
  Graph graph = run_stage(Stage::kForward, forward.graph, selection, context, &records);
  std::vector<std::string> names;
  for (const cost::PassRecord& record : records) {
    names.push_back(record.name);
    EXPECT_EQ(record.stage, "forward");
    EXPECT_FALSE(record.summary.empty());
    EXPECT_GT(record.before.nodes, 0);
    EXPECT_GT(record.before.launches, 0);
    EXPECT_GT(record.before.bytes, 0);
    EXPECT_GT(record.before.peak_bytes, 0);
    EXPECT_GE(record.elapsed_ns, 0);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"merge_qkv", "merge_gate_up", "flash_attention",
                                      "fuse_softmax_cross_entropy", "group_products", "expand"}));
  for (size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].before.nodes, records[i - 1].after.nodes);
    EXPECT_EQ(records[i].before.bytes, records[i - 1].after.bytes);
  }
  EXPECT_EQ(records.back().after.nodes, static_cast<int64_t>(graph.nodes.size()));
}

TEST(RunStage, RunsNothingOfOtherStages) {
  models::ForwardGraph forward = one_layer_forward();
  PassContext context{ops::table(), target(), forward.load};
  std::vector<cost::PassRecord> records;
  Graph graph =
      run_stage(Stage::kStep, forward.graph, Selection("baseline", ""), context, &records);
  EXPECT_TRUE(records.empty());
  EXPECT_EQ(print(graph), print(forward.graph));
}

// The standing obligation of the whole list: the step's
// planned cost falls, or the pass says what it trades.
TEST(Pipeline, EachPassLowersThePlannedCostOrSaysWhatItTrades) {
  for (const Pass* pass : pipeline()) {
    if (pass->name == "expand" || pass->name == "legalize") {
      EXPECT_FALSE(pass->trade.empty()) << pass->name;
      continue;
    }
    if (pass->name == "group_products" || pass->name.starts_with("store_"))
      continue;  // training keeps no weight as stored, and its masters in fp32: their own tests
    if (pass->name == "fuse_row_products" || pass->name == "fuse_rope_append" ||
        pass->name == "fuse_append_attention")
      continue;  // a GPU's steps of a few tokens: their own tests
    PlannedCost before = planned_step("baseline", "");
    PlannedCost after = planned_step("baseline", fmt::format("+{}", pass->name));
    bool falls = after.launches < before.launches || after.bytes < before.bytes ||
                 after.peak_bytes < before.peak_bytes;
    EXPECT_TRUE(falls || !pass->trade.empty()) << pass->name;
  }
}

// The ladder goes down.
TEST(Levels, EachIsPlannedToDoLess) {
  PlannedCost last = planned_step("baseline", "");
  for (const char* level : {"fused", "kernels", "compiled"}) {
    PlannedCost next = planned_step(level, "");
    EXPECT_LE(next.launches, last.launches) << level;
    EXPECT_LE(next.bytes, last.bytes) << level;
    last = next;
  }
}

}  // namespace
}  // namespace ridge::passes
