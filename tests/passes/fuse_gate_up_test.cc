// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_gate_up: the GLU of a group of two quantized weights joins the group, and nothing
// else does.
#include "backends/cpu/passes/passes.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

namespace cpu = backends::cpu;

struct Layer {
  DType gate = DType::kQ4_K, up = DType::kQ4_K;
  std::string activations = "i16";
  bool is_up_first = false;
  bool reads_gate = false;  // another node reads the gate's product
};

Graph feed_forward(const Layer& layer) {
  Graph graph;
  Builder b(graph, ops::table());
  const ValueId x = b.input("x", {DType::kF32, {4, 256}});
  auto scope = b.scope("layer.0");
  const ValueId gate = b.parameter("gate.weight", {layer.gate, {24, 256}}),
                up = b.parameter("up.weight", {layer.up, {24, 256}});
  const bool swaps = layer.is_up_first;
  const std::vector<ValueId> made =
      b.call_all("quantized_matmul", {x, swaps ? up : gate, swaps ? gate : up},
                 {{"activations", layer.activations}});
  const ValueId product = made[swaps ? 1 : 0];
  graph.outputs = {b.call("glu", {product, made[swaps ? 0 : 1]},
                          {{"activation", std::string("silu")}, {"fused", true}})};
  if (layer.reads_gate) graph.outputs.push_back(ops::unary(b, "neg", product));
  return graph;
}

TEST(FuseGateUp, JoinsTheGluToItsGroup) {
  for (bool is_up_first : {false, true}) {
    const Graph before = feed_forward({.is_up_first = is_up_first});
    if (!is_up_first) expect_golden("fuse_gate_up.before.txt", print(before));
    const Graph after = run_pass(cpu::fuse_gate_up_pass, before);
    verify(after);
    verify_origins(before, after);
    if (!is_up_first) expect_golden("fuse_gate_up.after.txt", print(after));
    ASSERT_EQ(after.nodes.size(), 1u);
    const Node& fused = after.nodes[0];
    EXPECT_EQ(fused.attrs.text("glu"), "silu");
    EXPECT_EQ(fused.attrs.text("activations"), "i16");
    EXPECT_EQ(after.value(fused.inputs[1]).name, "gate.weight");
    const PlannedCost costs = planned_cost(before), now = planned_cost(after);
    EXPECT_EQ(now.launches, costs.launches - 1);
    EXPECT_EQ(now.bytes, costs.bytes - 4 * 4 * 4 * 24) << "gate and up are neither stored nor read";
    ops::NamedTensors named = draw_named(before);
    ops::ReferenceRun two(before, named), one(after, named);
    EXPECT_EQ(two[before.outputs[0]], one[after.outputs[0]]);
  }
}

TEST(FuseGateUp, LeavesOtherGroupsAlone) {
  for (const Layer& layer :
       {Layer{.activations = "f32"}, Layer{.up = DType::kQ8_0}, Layer{.reads_gate = true}}) {
    const Graph before = feed_forward(layer);
    EXPECT_EQ(print(run_pass(cpu::fuse_gate_up_pass, before)), print(before));
  }
}

}  // namespace
}  // namespace ridge::passes
