// SPDX-License-Identifier: Apache-2.0
// Every pass on a one-layer training step: the graph before, the graph after (tests/golden/PASS.txt) and the change in
// planned cost. RIDGE_UPDATE_GOLDEN=1 writes the files anew; read the difference before committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "backends/cpu/cpu_backend.h"
#include "graph/text_form.h"
#include "graph/verifier.h"
#include "models/llama.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "passes/pipeline.h"
#include "perf/cost.h"
#include "perf/planner.h"
#include "train/optimizer.h"
#include "train/step.h"

namespace ridge::passes {
namespace {

models::ModelConfig one_layer() {
  models::ModelConfig c;
  c.name = "golden";
  c.vocabulary = 64, c.hidden = 32, c.layers = 1, c.heads = 4, c.kv_heads = 2, c.head_size = 8, c.feed_forward = 48;
  c.rope_interleaved = true;
  return c;
}

// What must be on besides the pass for it to find its pattern.
std::string needed_by(std::string_view pass) {
  if (pass == "fuse_rope") return "merge_qkv";
  if (pass == "fuse_adamw") return "autocast_bf16";
  return "";
}

struct Stages {
  Graph before, after;
};

// Runs the pipeline at baseline up to the pass, then the pass.
Stages apply(std::string_view name) {
  auto target = backends::cpu::make_cpu_backend({1, "", false, ""});
  models::ForwardGraph model = models::build_training_graph(one_layer(), ops::table(), 2, 16);
  PassContext context{.ops = ops::table(), .target = *target, .load = model.load};
  Selection selection("baseline", needed_by(name));
  Graph graph = model.graph;
  Stage stage = Stage::kForward;
  for (const Pass* pass : pipeline()) {
    if (pass->stage != Stage::kForward && stage == Stage::kForward) {
      std::vector<ValueId> parameters;
      for (size_t i = 0; i < graph.values.size(); ++i)
        if (graph.values[i].storage == Storage::kParameter && graph.values[i].producer == kNoNode)
          parameters.push_back(static_cast<ValueId>(i));
      std::vector<ValueId> gradients = differentiate(graph, ops::table(), graph.outputs[0], parameters);
      Builder b(graph, ops::table());
      train::append_adamw(b, {}, parameters, gradients);
      stage = pass->stage;
    }
    if (pass->name == name) return {graph, pass->run(graph, context)};
    if (selection.has(pass->name)) graph = pass->run(graph, context);
  }
  ADD_FAILURE() << "no pass " << name;
  return {};
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class GoldenTest : public testing::TestWithParam<std::string_view> {};

TEST_P(GoldenTest, RewritesAsRecorded) {
  Stages stages = apply(GetParam());
  verify(stages.after);
  verify_origins(stages.before, stages.after);
  std::string text = "-- before\n" + print(stages.before) + "-- after\n" + print(stages.after);
  std::string path = std::string(RIDGE_TEST_DATA) + "/../golden/" + std::string(GetParam()) + ".txt";
  if (std::getenv("RIDGE_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(read(path), text);
}

// The whole step, planned: what a pass saves shows once composites are expanded or not.
struct StepCost {
  perf::NodeCost cost;
  int64_t peak_bytes = 0;
  Work model;
};

StepCost step_cost(const std::string& switches) {
  auto target = backends::cpu::make_cpu_backend({1, "", false, ""});
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = 16;
  train::TrainingStep step =
      train::build_step(one_layer(), options, Selection("baseline", switches), ops::table(), *target);
  const Graph& graph = step.graphs[0].graph;
  auto places = perf::places(graph, target.get());
  return {perf::total(perf::node_costs(graph, places, target.get())),
          perf::plan_memory(graph, places, *target).arena_bytes, perf::model_totals(graph).step()};
}

// Bytes, launches or the peak fall, or the pass says what it trades; model FLOPs never change.
TEST_P(GoldenTest, LowersTheCostOrSaysWhatItTrades) {
  const Pass* pass = nullptr;
  for (const Pass* each : pipeline())
    if (each->name == GetParam()) pass = each;
  StepCost before = step_cost(needed_by(GetParam()));
  StepCost after = step_cost(needed_by(GetParam()) + "," + std::string(GetParam()));
  bool falls = after.cost.bytes() < before.cost.bytes() || after.cost.launches < before.cost.launches ||
               after.peak_bytes < before.peak_bytes;
  EXPECT_TRUE(falls || !pass->trade.empty())
      << "bytes " << before.cost.bytes() << " -> " << after.cost.bytes() << ", launches " << before.cost.launches
      << " -> " << after.cost.launches << ", peak " << before.peak_bytes << " -> " << after.peak_bytes;
  EXPECT_EQ(before.model, after.model);
}

TEST_P(GoldenTest, ChangesSomething) {
  Stages stages = apply(GetParam());
  // At baseline on the CPU no kernel refuses a view, so legalize finds nothing to do.
  if (GetParam() == "legalize") return;
  EXPECT_NE(print(stages.before), print(stages.after));
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const Pass* pass : pipeline()) names.push_back(pass->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Passes, GoldenTest, testing::ValuesIn(names()),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace ridge::passes
