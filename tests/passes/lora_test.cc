// SPDX-License-Identifier: Apache-2.0
// Tests of lora: adapters next to the projections that are asked for, and everything else frozen.
#include "passes/lora.h"

#include "files/scratch.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

Graph with_adapters(const LoraOptions& options, const models::ModelConfig& config = one_layer()) {
  models::ForwardGraph forward = models::build_training_graph(config, ops::table(), 1, 4);
  PassContext context{ops::table(), target(), forward.load};
  context.lora = options;
  Graph after = run_lora(forward.graph, context);
  verify(after);
  return after;
}

std::vector<std::string> trained(const Graph& graph) {
  std::vector<std::string> names;
  for (ValueId value : parameters(graph))
    if (!graph.value(value).frozen) names.push_back(graph.value(value).name);
  return names;
}

TEST(Lora, AddsAdaptersAndFreezesTheRest) {
  Graph after = try_pass(lora_pass);
  EXPECT_EQ(trained(after),
            (std::vector<std::string>{"model.layers.0.self_attn.q_proj.lora_A.weight",
                                      "model.layers.0.self_attn.q_proj.lora_B.weight",
                                      "model.layers.0.self_attn.v_proj.lora_A.weight",
                                      "model.layers.0.self_attn.v_proj.lora_B.weight"}));
  EXPECT_EQ(after.shape(after.find("model.layers.0.self_attn.v_proj.lora_A.weight")),
            (Shape{8, 16}));
  EXPECT_EQ(after.shape(after.find("model.layers.0.self_attn.v_proj.lora_B.weight")),
            (Shape{8, 8}));
}

TEST(Lora, TakesRankScaleAndTargets) {
  models::ModelConfig config = one_layer();
  config.tied_head = false;
  config.qkv_bias = config.output_bias = true;
  const Graph after =
      with_adapters({.rank = 3, .alpha = 6, .targets = {"down_proj", "lm_head"}}, config);
  EXPECT_EQ(trained(after).size(), 4u);
  EXPECT_EQ(after.shape(after.find("lm_head.lora_B.weight")), (Shape{32, 3}));
  int64_t scales = 0;
  for (const Node& node : after.nodes)
    if (node.op->name == "scale" && node.scope.ends_with("lora")) {
      EXPECT_EQ(node.attrs.real("parameter"), 2);
      ++scales;
    }
  EXPECT_EQ(scales, 2);
}

TEST(Lora, RefusesTargetsThatNoProjectionHas) {
  files::expect_error(
      [] {
        with_adapters({.targets = {"q_proj", "qproj"}});
      },
      ExitCode::kUsage,
      "[lora-targets] expected some of down_proj, gate_proj, k_proj, o_proj, q_proj, "
      "up_proj, v_proj, got");
  // A tied head is the table of embeddings.
  files::expect_error([] { with_adapters({.targets = {"embed_tokens"}}); }, ExitCode::kUsage,
                      "embed_tokens");
}

TEST(Lora, KeepsNoGradientsAndMomentsOfTheModel) {
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = 4;
  const auto states = [&](const char* switches) {
    const train::TrainingStep step =
        train::build_step({one_layer(), options, Selection("baseline", switches)}, target());
    int64_t elements = 0;
    for (const Value& value : step.graphs[0].graph.values)
      if (value.storage == Storage::kState && value.producer == kNoNode)
        elements += value.type.shape.elements();
    return elements;
  };
  EXPECT_EQ(states(""), 2 * one_layer().parameters());
  // q [16,16] and v [8,16] at rank 8.
  EXPECT_EQ(states("+lora"), 2 * 8 * ((16 + 16) + (8 + 16)));
}

}  // namespace
}  // namespace ridge::passes
