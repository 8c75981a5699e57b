// SPDX-License-Identifier: Apache-2.0
// Model FLOPs: equal to the architecture's closed form, and the same at every level and under any
// set of passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "backends/null/null_backend.h"
#include "cost/cost.h"
#include "files/scratch.h"
#include "models/llama_shape.h"
#include "train/step.h"

namespace ridge::cost {
namespace {

const passes::PassTarget& target() {
  static const auto made = backends::null::make_null_target();
  return *made;
}

train::TrainingStep build(const models::ModelConfig& config,
                          int64_t batch,
                          int64_t sequence,
                          const std::string& level,
                          const std::string& switches,
                          int64_t micro_batches = 1) {
  train::StepOptions options;
  options.batch_size = batch;
  options.sequence = sequence;
  options.micro_batches = micro_batches;
  return train::build_step({config, options, passes::Selection(level, switches)}, target());
}

// Llama in closed form: GEMMs by extents, pointwise work by the table of docs/accounting.md.
struct ClosedForm {
  int64_t forward_macs = 0, backward_macs = 0;
  int64_t forward_flops = 0, backward_flops = 0;
};

ClosedForm closed_form(const models::ModelConfig& c, int64_t batch, int64_t t) {
  int64_t n = batch * t, d = c.hidden, q = c.heads * c.head_size, kv = c.kv_heads * c.head_size,
          f = c.feed_forward;
  int64_t l = c.layers, scores = batch * c.heads * t * t;
  ClosedForm form;
  int64_t layer_products = n * d * (2 * q + 2 * kv) + 3 * n * d * f,
          attention = 2 * scores * c.head_size;
  form.forward_macs = l * (layer_products + attention) + n * d * c.vocabulary;
  form.backward_macs = 2 * form.forward_macs;
  int64_t norms = 2 * l + 1;
  int64_t rope = 3 * n * (q + kv);
  int64_t forward =
      norms * (4 * n * d + 3 * n)      // squares, sum, scale, weight; mean, eps and root a row
      + l * (rope + 6 * scores         // scale, max, subtract, exp, sum, divide
             + 5 * n * f               // silu 4, up 1
             + 2 * n * d)              // residual sums
      + 3 * n * c.head_size / 2        // the table: angle, sine, cosine
      + 4 * n * c.vocabulary + 4 * n;  // log-sum-exp and loss
  int64_t backward = norms * (9 * n * d + n) + l * (rope + 5 * scores + 15 * n * f) +
                     3 * n * c.vocabulary + n + n * d;  // rows added to the embedding
  form.forward_flops = 2 * form.forward_macs + forward;
  form.backward_flops = 2 * form.backward_macs + backward;
  return form;
}

// Llama 3.1 405B, from its published config.json.
models::ModelConfig llama_405b() {
  models::ModelConfig c =
      models::llama_shape("405b", {128256, 16384, 126, 128, 8, 128, 53248, 131072});
  c.tied_head = false;
  return c;
}

TEST(ModelTotals, EqualTheClosedFormForEveryPresetAndLevel) {
  for (const models::Preset& preset : models::presets()) {
    ClosedForm form = closed_form(preset.config, preset.batch_size, preset.sequence);
    for (const passes::Level& level : passes::levels()) {
      train::TrainingStep step =
          build(preset.config, preset.batch_size, preset.sequence, std::string(level.name), "");
      ModelTotals totals = model_totals(step.graphs[0].graph);
      std::string where = preset.config.name + " " + std::string(level.name);
      EXPECT_EQ(totals.forward.macs, form.forward_macs) << where;
      EXPECT_EQ(totals.backward.macs, form.backward_macs) << where;
      EXPECT_EQ(totals.forward.flops, form.forward_flops) << where;
      EXPECT_EQ(totals.backward.flops, form.backward_flops) << where;
      EXPECT_EQ(totals.step().flops, form.forward_flops + form.backward_flops) << where;
    }
  }
}

// The largest published Llama: exact as long as the counts fit, an Error if a sum does not fit
// although every product does.
TEST(ModelTotals, OfTheLargestLlamaAreRightOrAnError) {
  const models::ModelConfig config = llama_405b();
  ClosedForm form = closed_form(config, 64, 8192);
  ModelTotals totals = model_totals(build(config, 64, 8192, "compiled", "").graphs[0].graph);
  EXPECT_EQ(totals.forward.macs, form.forward_macs);
  EXPECT_EQ(totals.step().flops, form.forward_flops + form.backward_flops);
  EXPECT_GT(totals.step().flops, int64_t{1} << 60);
  files::expect_error(
      [&] { model_totals(build(config, 2048, 8192, "compiled", "").graphs[0].graph); },
      ExitCode::kOutOfMemory, "");
}

models::ModelConfig two_layers() {
  models::ModelConfig config = models::preset("tiny").config;
  std::tie(config.vocabulary, config.hidden, config.feed_forward) = std::tuple(50, 48, 40);
  std::tie(config.layers, config.heads, config.kv_heads, config.head_size) = std::tuple(2, 6, 2, 8);
  return config;
}

// Each pass that a user can switch in training is randomly on or off. Adapters are work of their
// own, and this target, a GPU's, has no kernels for fp16.
std::string random_switches(std::mt19937& random) {
  std::string switches;
  for (const passes::Pass* pass : passes::pipeline(target().passes())) {
    if (pass->name == "expand" || pass->name == "legalize" || pass->name == "store_bf16" ||
        pass->name == "lora" || pass->name == "autocast_f16")
      continue;
    switches += (switches.empty() ? "" : ",") + std::string(random() % 2 == 0 ? "+" : "-") +
                std::string(pass->name);
  }
  return switches;
}

TEST(ModelTotals, AreTheSameUnderRandomSetsOfPasses) {
  models::ModelConfig config = two_layers();
  ClosedForm form = closed_form(config, 3, 17);
  std::mt19937 random(7);
  int64_t executed_differently = 0;
  int64_t first = -1;
  for (int trial = 0; trial < 60; ++trial) {
    std::string level(passes::levels()[trial % passes::levels().size()].name);
    std::string switches = random_switches(random);
    train::TrainingStep step = build(config, 3, 17, level, switches);
    const Graph& graph = step.graphs[0].graph;
    ModelTotals totals = model_totals(graph);
    EXPECT_EQ(totals.forward.flops, form.forward_flops) << level << " " << switches;
    EXPECT_EQ(totals.backward.flops, form.backward_flops) << level << " " << switches;
    EXPECT_EQ(totals.forward.macs + totals.backward.macs, 3 * form.forward_macs)
        << level << " " << switches;
    int64_t executed = total(node_costs(plan::plan(graph, target()))).work.flops;
    if (first < 0) first = executed;
    executed_differently += executed != first ? 1 : 0;
  }
  EXPECT_GT(executed_differently, 10) << "the sets of passes did not change what runs";
}

// A frozen weight's product has one product in its backward, and what leads to no trained parameter
// has none.
TEST(ModelTotals, LeaveOutTheGradientsOfFrozenWeights) {
  const models::ModelConfig c = two_layers();
  const ClosedForm form = closed_form(c, 3, 17);
  const int64_t n = 3 * 17, q = c.heads * c.head_size, kv = c.kv_heads * c.head_size;
  const auto totals = [&](std::vector<std::string> frozen, const char* level) {
    train::StepOptions options;
    options.batch_size = 3;
    options.sequence = 17;
    options.frozen = std::move(frozen);
    return model_totals(
        train::build_step({c, options, passes::Selection(level, "")}, target()).graphs[0].graph);
  };
  for (const char* level : {"baseline", "compiled"}) {
    ModelTotals some = totals({"*mlp.down_proj*"}, level);
    EXPECT_EQ(some.forward.macs, form.forward_macs);
    EXPECT_EQ(some.backward.macs, form.backward_macs - c.layers * n * c.hidden * c.feed_forward);
    // Only the last layer's down_proj is trained: its own product, and the head's for its input.
    ModelTotals last = totals(
        {"*embed*", "*norm*", "*self_attn*", "*gate*", "*up_proj*", "model.layers.0.*"}, level);
    EXPECT_EQ(last.backward.macs, n * c.hidden * (c.vocabulary + c.feed_forward));
    // The first layer's input has no gradient: q, k and v have one product, and the table's lookup
    // has no backward.
    ModelTotals no_table = totals({"*embed*"}, level);
    EXPECT_EQ(no_table.backward.macs, form.backward_macs - n * c.hidden * c.vocabulary);
    ModelTotals attention = totals({"*embed*", "model.layers.0.input_layernorm*"}, level);
    EXPECT_EQ(attention.backward.macs,
              form.backward_macs - n * c.hidden * (c.vocabulary + q + 2 * kv));
  }
}

TEST(ModelTotals, OfMicroBatchesAreThoseOfOneStep) {
  models::ModelConfig config = two_layers();
  train::TrainingStep step = build(config, 2, 17, "compiled", "", 4);
  ASSERT_EQ(step.graphs.size(), 2u);
  ModelTotals totals = model_totals(step.graphs[0].graph);
  EXPECT_EQ(totals.forward.macs, closed_form(config, 2, 17).forward_macs);
  // The optimizer is not part of the model.
  EXPECT_EQ(model_totals(step.graphs[1].graph).step().flops, 0);
}

// Every scope's cost is the sum of its own nodes and of the scopes below it.
TEST(NodeCosts, OfScopesAddUp) {
  train::TrainingStep step = build(two_layers(), 3, 17, "kernels", "");
  const Graph& graph = step.graphs[0].graph;
  std::vector<NodeCost> costs = node_costs(plan::plan(graph, target()));
  std::map<std::string, NodeCost> own, below;
  for (size_t i = 0; i < costs.size(); ++i) {
    own[graph.nodes[i].scope] += costs[i];
    std::string scope = graph.nodes[i].scope;
    while (true) {
      below[scope] += costs[i];
      if (scope.empty()) break;
      size_t slash = scope.rfind('/');
      scope = slash == std::string::npos ? "" : scope.substr(0, slash);
    }
  }
  for (const auto& [parent, cost] : below) {
    NodeCost sum = own.contains(parent) ? own[parent] : NodeCost{};
    for (const auto& [child, child_cost] : below) {
      bool is_child = !child.empty() && (parent.empty() ? child.find('/') == std::string::npos
                                                        : child.rfind('/') == parent.size() &&
                                                              child.starts_with(parent + "/"));
      if (is_child) sum += child_cost;
    }
    EXPECT_EQ(sum.work, cost.work) << parent;
    EXPECT_EQ(sum.read_bytes, cost.read_bytes) << parent;
    EXPECT_EQ(sum.written_bytes, cost.written_bytes) << parent;
    EXPECT_EQ(sum.launches, cost.launches) << parent;
  }
  EXPECT_EQ(below[""].work, total(costs).work);
}

}  // namespace
}  // namespace ridge::cost
