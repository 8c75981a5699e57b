// SPDX-License-Identifier: Apache-2.0
// The checks of every pass, on a graph small enough to read: the graphs before and after as text in
// tests/golden, equal results in double precision, no change when the pass runs a second time, and
// a planned cost that falls. RIDGE_UPDATE_GOLDEN=1 in the environment rewrites the golden texts
// instead of comparing with them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backends/cpu/cpu_backend.h"
#include "cost/costed_graph.h"
#include "golden_text.h"
#include "graph/rewriter.h"
#include "graph/text_form.h"
#include "graph/verifier.h"
#include "models/forward_graph.h"
#include "ops/build.h"
#include "ops/case_data.h"
#include "ops/reference_run.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "plan/planner.h"
#include "train/optimizer.h"
#include "train/step.h"

namespace ridge::passes {

// One thread and the lowest instruction set: the workspace grows with the threads, passes depend on
// the machine's instructions, and the golden texts must depend on neither.
inline backends::Backend& target() {
  static std::unique_ptr<backends::Backend> backend = [] {
    backends::cpu::CpuOptions options;
    options.threads = 1;
    options.isa = "avx2";
    return backends::cpu::make_cpu_backend(options);
  }();
  return *backend;
}

inline models::ModelConfig one_layer() {
  models::ModelConfig config;
  config.name = "golden";
  config.vocabulary = 32;
  config.hidden = 16;
  config.layers = 1;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_size = 8;
  config.feed_forward = 24;
  config.context = 4;
  return config;
}

// The same with heads that four ranks divide.
inline models::ModelConfig four_heads(int64_t kv_heads, int64_t head_size = 8) {
  models::ModelConfig config = one_layer();
  config.heads = 4;
  config.kv_heads = kv_heads;
  config.head_size = head_size;
  return config;
}

// The forward graph of one layer over one sequence of four tokens.
inline models::ForwardGraph one_layer_forward() {
  return models::build_training_graph(one_layer(), ops::table(), 1, 4);
}

// A load graph that stores each parameter as the file has it.
inline LoadGraph identity_load(const Graph& graph) {
  LoadGraph load;
  Builder b(load.graph, ops::table());
  for (const Value& value : graph.values)
    if (value.storage == Storage::kParameter && value.producer == kNoNode)
      load.stored[value.name] = b.input(value.name, value.type);
  return load;
}

inline std::vector<ValueId> parameters(const Graph& graph) {
  std::vector<ValueId> found;
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].storage == Storage::kParameter && graph.values[i].producer == kNoNode)
      found.push_back(static_cast<ValueId>(i));
  return found;
}

// The whole step of a forward graph: the gradient and the update of each parameter.
inline Graph with_step(Graph graph, const train::OptimizerOptions& options = {}) {
  std::vector<ValueId> wanted = parameters(graph);
  std::vector<ValueId> gradients = differentiate(graph, ops::table(), graph.outputs[0], wanted);
  Builder b(graph, ops::table());
  train::append_adamw(b, options, wanted, gradients);
  return without_dead_nodes(graph);
}

// The sum of squares of gelu_tanh(x w1 / 2) w2, divided by 32: the smallest network with GEMMs,
// sums and pointwise work.
inline Graph perceptron() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 8}});
  auto layer = b.scope("layer.0");
  ValueId first = ops::matmul(b, "nd,fd->nf", x, b.parameter("up.weight", {DType::kF32, {6, 8}}));
  ValueId hidden = ops::unary(b, "gelu_tanh", ops::scale(b, first, 0.5));
  ValueId second = ops::matmul(b, "nd,fd->nf", hidden,
                               b.parameter("down.weight", {DType::kF32, {8, 6}}), DType::kF32);
  ValueId square = ops::unary(b, "square", second);
  graph.outputs = {
      ops::reshape(b, ops::scale(b, ops::reduce_sum(b, square, {0, 1}), 1.0 / 32), Shape{})};
  return graph;
}

inline Graph run_pass(const Pass& pass,
                      const Graph& graph,
                      LoadGraph& load,
                      const plan::Target& on = target()) {
  PassContext context{ops::table(), on, load};
  return pass.run(graph, context);
}
inline Graph run_pass(const Pass& pass, const Graph& graph) {
  LoadGraph load = identity_load(graph);
  return run_pass(pass, graph, load);
}

// --- Results. ---

inline Fill fill_of(const std::string& name) {
  if (name == "ids" || name == "labels") return {Fill::kIds, 32};
  if (name == "positions") return {Fill::kPositions, 4};
  if (name == "learning_rate") return {Fill::kConstant, 0.125};
  if (name == "step") return {Fill::kConstant, 3};
  if (name.ends_with(".adamw_v")) return {Fill::kPositive};
  if (name.ends_with(kLoraB)) return {Fill::kConstant, 0};  // as at the start of training
  return {};
}

// Random tensors for the named values of a graph; equal names get equal numbers.
inline ops::NamedTensors draw_named(const Graph& graph) {
  ops::NamedTensors named;
  for (const Value& value : graph.values) {
    if (value.producer != kNoNode) continue;
    Random random(static_cast<uint32_t>(std::hash<std::string>()(value.name)));
    named[value.name] = ops::draw(value.type, fill_of(value.name), random);
  }
  return named;
}

// The stored tensors that the load graph makes from a file's tensors.
inline ops::NamedTensors stored(const LoadGraph& load, const ops::NamedTensors& file) {
  ops::ReferenceRun run(load.graph, file);
  ops::NamedTensors stored;
  for (const auto& [name, value] : load.stored) stored[name] = run.at(value);
  return stored;
}

inline void expect_close(const std::vector<double>& want,
                         const std::vector<double>& got,
                         const std::string& what) {
  constexpr double kRounding = 1e-11;  // relative to the largest value; both are doubles
  ASSERT_EQ(want.size(), got.size()) << what;
  double top = 1;
  for (double x : want) top = std::max(top, std::abs(x));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(want[i], got[i], kRounding * top) << what << " element " << i;
}

// Both graphs return the same outputs and leave the same stored values, in double precision.
inline void expect_same_meaning(const Graph& before, const Graph& after, const LoadGraph& load) {
  ops::NamedTensors named = draw_named(before), named_after = draw_named(after);
  for (auto& [name, tensor] : named_after)
    if (named.contains(name)) tensor = named.at(name);
  ops::NamedTensors file = named;
  file.insert(named_after.begin(), named_after.end());  // the values that the pass adds
  for (auto& [name, tensor] : stored(load, file)) named_after[name] = tensor;
  ops::ReferenceRun want(before, named), got(after, named_after);
  for (size_t o = 0; o < before.outputs.size(); ++o)
    expect_close(want[before.outputs[o]], got[after.outputs[o]], fmt::format("output {}", o));
  ops::NamedTensors want_stored = want.stored(), got_stored = got.stored();
  ops::NamedTensors want_file = want_stored;
  want_file.insert(file.begin(), file.end());
  for (const auto& [name, tensor] : stored(load, want_file))
    expect_close(tensor.data, got_stored.at(name).data, name);
  for (const auto& [name, tensor] : want_stored)
    if (got_stored.contains(name)) expect_close(tensor.data, got_stored.at(name).data, name);
}

// --- Cost. ---

struct PlannedCost {
  int64_t launches = 0;
  int64_t bytes = 0;
  int64_t peak_bytes = 0;
};

inline PlannedCost planned_cost(const Graph& graph, const plan::Target& on = target()) {
  const cost::CostedGraph costed = cost::count(plan::plan(graph, on));
  const cost::NodeCost sum = cost::total(costed.costs);
  return {sum.launches, sum.bytes(), costed.memory.arena_bytes};
}

// The planned cost of a training step of a two-layer model with 64 tokens per sequence.
inline PlannedCost planned_step(std::string_view level, std::string_view switches) {
  models::ModelConfig config = one_layer();
  config.layers = 2;
  config.hidden = 32;
  config.heads = 4;
  config.kv_heads = 2;
  config.feed_forward = 64;
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = 64;
  return planned_cost(
      train::build_step({config, options, Selection(level, switches)}, target()).graphs[0].graph);
}

// Checks that the pass, added to the baseline, lowers the launches and bytes of that step; returns
// the planned cost with it.
inline PlannedCost expect_lower_step(std::string_view pass) {
  PlannedCost before = planned_step("baseline", ""),
              after = planned_step("baseline", fmt::format("+{}", pass));
  EXPECT_LT(after.launches, before.launches);
  EXPECT_LT(after.bytes, before.bytes);
  return after;
}

// --- All checks of one pass. ---

// Checks a pass's golden texts, its results, and that a second run changes nothing. Returns the
// rewritten graph.
inline Graph try_pass(const Pass& pass,
                      const Graph& built,
                      LoadGraph load,
                      const plan::Target& on = target()) {
  std::string name(pass.name), text = print(built);
  expect_golden(name + ".before.txt", text);
  Graph before = parse_graph(text, ops::table());
  EXPECT_EQ(text, print(before));
  verify(before);
  Graph after = run_pass(pass, before, load, on);
  verify(after);
  verify_origins(before, after);
  expect_golden(name + ".after.txt", print(after));
  EXPECT_EQ(print(after), print(parse_graph(print(after), ops::table())));
  EXPECT_NE(text, print(after)) << "the pass finds nothing in its own example";
  expect_same_meaning(before, after, load);
  EXPECT_EQ(print(after), print(run_pass(pass, after, load, on)))
      << "the pass does not come to an end";
  return after;
}

inline Graph try_pass(const Pass& pass, const Graph& built) {
  return try_pass(pass, built, identity_load(built));
}

// Runs on the forward graph of one layer.
inline Graph try_pass(const Pass& pass) {
  models::ForwardGraph forward = one_layer_forward();
  return try_pass(pass, forward.graph, forward.load);
}

// Runs a pass that narrows activations: every GEMM is in the type, and the parameters and the loss
// stay in fp32.
inline void expect_narrowed(DType narrow, const Pass& pass) {
  Graph after = try_pass(pass);
  for (const Node& node : after.nodes) {
    if (node.op->name != "matmul") continue;
    for (ValueId input : node.inputs) EXPECT_EQ(after.type(input).dtype, narrow);
    EXPECT_EQ(after.type(node.outputs[0]).dtype, narrow);
  }
  for (ValueId parameter : parameters(after)) EXPECT_EQ(after.type(parameter).dtype, DType::kF32);
  EXPECT_EQ(after.type(after.outputs[0]).dtype, DType::kF32) << "the loss";
}

inline int64_t count(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& n) { return n.op->name == op; });
}

}  // namespace ridge::passes
