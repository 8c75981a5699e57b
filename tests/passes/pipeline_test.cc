// SPDX-License-Identifier: Apache-2.0
// Tests of the pipeline: its order, levels and switches, and what it records about each pass.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backends/cpu/passes/passes.h"
#include "base/error.h"
#include "passes/decode_step.h"

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

std::span<const Pass* const> passes_of(std::string_view backend) {
  if (backend == "cpu") return backends::cpu::passes();
  if (backend == "cuda") return backends::cuda::passes();
  return {};
}

TEST(Pipeline, HasEachPassOnceAndStagesInOrder) {
  for (const char* backend : {"none", "cpu", "cuda"}) {
    std::set<std::string_view> names;
    Stage stage = Stage::kForward;
    for (const Pass* pass : pipeline(passes_of(backend))) {
      EXPECT_TRUE(names.insert(pass->name).second) << pass->name;
      EXPECT_GE(pass->stage, stage) << pass->name;
      EXPECT_FALSE(pass->summary.empty()) << pass->name;
      stage = pass->stage;
    }
    for (const Pass* pass : passes_of(backend))
      EXPECT_TRUE(names.contains(pass->name)) << pass->name;
  }
}

TEST(Pipeline, EachLineIsAPassOfItsBackend) {
  for (const Listed& line : list()) {
    std::span<const Pass* const> own = passes_of(line.backend);
    bool is_shared = line.pass != nullptr && line.pass->name == line.name;
    int64_t owned = std::count_if(own.begin(), own.end(),
                                  [&](const Pass* pass) { return pass->name == line.name; });
    EXPECT_EQ(is_shared, line.backend == "all") << line.name;
    EXPECT_EQ(owned, line.backend == "all" ? 0 : 1) << line.backend << " " << line.name;
    auto is_named = [&](const Level& level) { return level.name == line.level; };
    EXPECT_TRUE(line.level == "none" || std::any_of(levels().begin(), levels().end(), is_named))
        << line.name << " " << line.level;
  }
}

Graph step_graph(const std::string& switches, const PassTarget& on) {
  train::StepOptions options;
  options.batch_size = 4;
  options.sequence = 4;
  return train::build_step({one_layer(), options, Selection("baseline", switches)}, on)
      .graphs[0]
      .graph;
}

std::string ops_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes)
    text += fmt::format("{} {}\n", node.op->name, graph.type(node.outputs[0]).str());
  return text;
}

// A pass that serves only one kind of graph leaves the nodes of the other kind as they are.
TEST(Pipeline, PassesServeWhatTheySay) {
  GpuKernels gpu;
  for (const PassTarget* on :
       {static_cast<const PassTarget*>(&target()), static_cast<const PassTarget*>(&gpu)}) {
    const std::string step = ops_of(step_graph("", *on));
    DecodeStep decode(models::Family::kLlama);
    for (const Pass* pass : pipeline(on->passes())) {
      // autocast_f16 refuses the decode step, whose weights are in bf16.
      if (pass->serves == Serves::kTraining && pass->name != "autocast_f16") {
        EXPECT_EQ(ops_of(decode.run(*pass, decode.graph())), ops_of(decode.graph())) << pass->name;
      }
      // Training rejects weights that are stored in a smaller type.
      if (pass->serves == Serves::kInference && pass->name != "store_bf16") {
        EXPECT_EQ(ops_of(step_graph(fmt::format("+{}", pass->name), *on)), step) << pass->name;
      }
    }
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

TEST(Switches, AreReadInOrder) {
  const std::vector<Switch> switches = parse_switches("+recompute,-fuse_glu,merge_qkv");
  ASSERT_EQ(switches.size(), 3u);
  EXPECT_TRUE(switches[0].is_on);
  EXPECT_EQ(switches[1].name, "fuse_glu");
  EXPECT_FALSE(switches[1].is_on);
  EXPECT_TRUE(switches[2].is_on);
}

TEST(Switches, MayHaveFormerNames) {
  const std::vector<Switch> switches = parse_switches("-fuse_row_products,fuse_glu");
  ASSERT_EQ(switches.size(), 2u);
  EXPECT_EQ(switches[0].name, "fuse_skinny_gemm");
  EXPECT_FALSE(switches[0].is_on);
  EXPECT_FALSE(Selection("kernels", "-fuse_row_products").has("fuse_skinny_gemm"));
}

TEST(Switches, HaveAnEffectWhereThePassIsUsed) {
  const std::span<const Pass* const> none;
  EXPECT_NO_THROW(expect_effect("", Serves::kTraining, none, false));
  EXPECT_NO_THROW(expect_effect("-fuse_glu,+recompute", Serves::kTraining, none, false));
  EXPECT_NO_THROW(expect_effect("+capture,-branches,+tune_gemm", Serves::kTraining, none, true));
  EXPECT_NO_THROW(expect_effect("+store_f32", Serves::kInference, none, true));
  for (const char* each : {"+capture", "-branches", "+tf32", "+transpose_operands", "+store_f32",
                           "+fuse_glu,-fuse_glu", ","})
    EXPECT_THROW(expect_effect(each, Serves::kTraining, none, false), Error) << each;
  EXPECT_THROW(expect_effect("+recompute", Serves::kInference, none, true), Error);
}

TEST(Selection, SwitchesPassesOnAndOff) {
  EXPECT_TRUE(Selection("baseline", "+recompute").has("recompute"));
  EXPECT_TRUE(Selection("baseline", "recompute").has("recompute"));
  EXPECT_FALSE(Selection("compiled", "-fuse_glu").has("fuse_glu"));
  EXPECT_FALSE(Selection("compiled", "").has("recompute"));
  Selection both("fused", "+recompute,-merge_qkv,+fuse_glu");
  EXPECT_TRUE(both.has("recompute") && both.has("fuse_glu") && both.has("flash_attention"));
  EXPECT_FALSE(both.has("merge_qkv"));
  // The last switch wins.
  EXPECT_FALSE(Selection("fused", "+recompute,-recompute").has("recompute"));
  EXPECT_FALSE(Selection("fused", "-tune_gemm").has("tune_gemm"));
}

TEST(Selection, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("fastest", ""),
            "[level] expected one of baseline, fused, kernels, compiled, got 'fastest'");
  EXPECT_EQ(refusal("", ""), "[level] expected one of baseline, fused, kernels, compiled, got ''");
  std::string unknown = refusal("fused", "+flash_atention");
  EXPECT_NE(unknown.find("unknown pass \"flash_atention\" (did you mean flash_attention?); "
                         "expected one of lora, "),
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

// Every pass lowers the planned cost of the step or states a trade.
TEST(Pipeline, EachPassLowersThePlannedCostOrSaysWhatItTrades) {
  for (const Pass* pass : pipeline(target().passes())) {
    if (pass->name == "expand" || pass->name == "legalize") {
      EXPECT_FALSE(pass->trade.empty()) << pass->name;
      continue;
    }
    if (pass->serves == Serves::kInference) continue;  // covered by their own tests
    PlannedCost before = planned_step("baseline", "");
    PlannedCost after = planned_step("baseline", fmt::format("+{}", pass->name));
    bool falls = after.launches < before.launches || after.bytes < before.bytes ||
                 after.peak_bytes < before.peak_bytes;
    EXPECT_TRUE(falls || !pass->trade.empty()) << pass->name;
  }
}

// The planned cost does not rise from level to level.
TEST(Levels, EachIsPlannedToDoLess) {
  PlannedCost last = planned_step("baseline", "");
  for (const char* level : {"fused", "kernels", "compiled"}) {
    PlannedCost next = planned_step(level, "");
    EXPECT_LE(next.launches, last.launches) << level;
    EXPECT_LE(next.bytes, last.bytes) << level;
    last = next;
  }
}

TEST(Selection, KeepsTheNumberOfRecompute) {
  const Selection some("compiled", "+recompute=3");
  EXPECT_TRUE(some.has("recompute"));
  EXPECT_EQ(some.number("recompute"), 3);
  EXPECT_EQ(some.spelling("recompute"), "recompute=3");
  EXPECT_NE(some.str().find(",recompute=3,"), std::string::npos) << some.str();
  EXPECT_EQ(some.spelling("fuse_glu"), "fuse_glu");
  // The last switch of a name counts.
  EXPECT_EQ(Selection("compiled", "recompute=3,+recompute").number("recompute"), std::nullopt);
  EXPECT_EQ(Selection("compiled", "+recompute,recompute=2").number("recompute"), 2);
  EXPECT_FALSE(Selection("compiled", "+recompute=2,-recompute").has("recompute"));
  for (const char* bad :
       {"+recompute=0", "+recompute=x", "+recompute=", "+recompute=9999999999999999999"})
    EXPECT_NE(refusal("compiled", bad).find("a number of layers"), std::string::npos) << bad;
}

TEST(Selection, KeepsTheBitsOfQuantizeActivations) {
  EXPECT_EQ(Selection("compiled", "+quantize_activations=8").number("quantize_activations"), 8);
  EXPECT_EQ(Selection("compiled", "+quantize_activations=16").spelling("quantize_activations"),
            "quantize_activations=16");
  for (const char* bad : {"+quantize_activations=4", "+quantize_activations=0",
                          "+quantize_activations=", "+quantize_activations=8x"})
    EXPECT_NE(refusal("compiled", bad).find("8 or 16 bits"), std::string::npos) << bad;
}

}  // namespace
}  // namespace ridge::passes
