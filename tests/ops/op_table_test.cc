// SPDX-License-Identifier: Apache-2.0
// Properties of every op in the table: its description is complete, its counts and shapes are
// consistent, and a composite is equal to its expansion.
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/verifier.h"
#include "ops/build.h"
#include "ops/case_data.h"
#include "ops/reference_run.h"
#include "ops/registry.h"

namespace ridge {
namespace {

// A graph of one node for a case. Operands that the op updates become states.
Graph graph_of(const Op& op, const Case& sample, ops::NamedTensors& named) {
  Graph graph;
  Builder b(graph, ops::table());
  Random random(3);
  std::vector<Type> types;
  for (const CaseInput& input : sample.inputs) types.push_back(input.type);
  Attrs attrs = complete_attrs(op, sample.attrs);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    bool updated = false;
    if (op.aliases != nullptr)
      for (const Alias& alias : op.aliases({types, {}, attrs}))
        updated = updated || alias.input == static_cast<int>(i);
    std::string label = fmt::format("x{}", i);
    named[label] = ops::draw(sample.inputs[i], random);
    inputs.push_back(updated ? b.state(label, types[i]) : b.input(label, types[i]));
  }
  graph.outputs = b.call_all(op.name, inputs, sample.attrs);
  return graph;
}

TEST(OpTable, NamesAreWordsAndDistinct) {
  std::vector<const Op*> twice{&ops::table().at("add"), &ops::table().at("add")};
  EXPECT_THROW(OpTable{twice}, InternalError);
  for (const Op* op : ops::table().all()) {
    EXPECT_FALSE(op->name.empty());
    for (char c : op->name)
      EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') << op->name;
    EXPECT_EQ(ops::table().find(op->name), op);
  }
  EXPECT_EQ(ops::table().find("no_such_op"), nullptr);
}

TEST(OpTable, EachOpIsDescribed) {
  for (const Op* op : ops::table().all()) {
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_EQ(op->kind == OpKind::kView, op->view != nullptr) << op->name;
    EXPECT_EQ(op->kind == OpKind::kComposite, op->expand != nullptr) << op->name;
    // Every op with a cost has a formula for it; a view costs nothing.
    EXPECT_EQ(op->formula.empty(), op->kind == OpKind::kView) << op->name;
    EXPECT_FALSE(op->kind == OpKind::kView && op->work != nullptr) << op->name;
    EXPECT_TRUE(op->operands.most < 0 || op->operands.least <= op->operands.most) << op->name;
  }
}

TEST(OpTable, CasesMakeLegalGraphs) {
  for (const Op* op : ops::table().all()) {
    if (op->cases == nullptr) continue;
    std::set<std::string> names;
    for (const Case& sample : op->cases()) {
      EXPECT_TRUE(names.insert(sample.name).second) << op->name << " has two cases " << sample.name;
      ops::NamedTensors named;
      verify(graph_of(*op, sample, named));
    }
  }
}

TEST(OpTable, AMacIsTwoFlops) {
  for (const Op* op : ops::table().all()) {
    if (op->cases == nullptr) continue;
    for (const Case& sample : op->cases()) {
      ops::NamedTensors named;
      Graph graph = graph_of(*op, sample, named);
      CallTypes types(graph, graph.nodes[0]);
      Work work = op->work == nullptr ? Work{} : op->work(types.call());
      EXPECT_GE(work.macs, 0) << op->name;
      EXPECT_GE(work.flops, 2 * work.macs) << op->name;
      EXPECT_GE(work.flops, 0) << op->name;
      ModelWork model = model_work(*op, types.call());
      EXPECT_GE(model.forward.flops, 2 * model.forward.macs) << op->name;
      EXPECT_GE(model.backward.flops, 2 * model.backward.macs) << op->name;
    }
  }
}

TEST(OpTable, OutputsOfUpdatesHaveTheTypeOfTheirInput) {
  for (const Op* op : ops::table().all()) {
    if (op->cases == nullptr || op->aliases == nullptr) continue;
    for (const Case& sample : op->cases()) {
      ops::NamedTensors named;
      Graph graph = graph_of(*op, sample, named);
      for (const Alias& alias : aliases(graph, graph.nodes[0]))
        EXPECT_EQ(graph.type(graph.nodes[0].outputs[static_cast<size_t>(alias.output)]),
                  graph.type(graph.nodes[0].inputs[static_cast<size_t>(alias.input)]));
    }
  }
}

// A residual must have the type of the product that it is added to.
TEST(OpTable, SkinnyGemmsRefuseAResidualOfAnotherType) {
  const Op& op = ops::table().at("skinny_gemm");
  int residuals = 0;
  for (const Case& sample : op.cases()) {
    const Attrs attrs = complete_attrs(op, sample.attrs);
    if (!attrs.flag("residual")) continue;
    ++residuals;
    std::vector<Type> types;
    for (const CaseInput& input : sample.inputs) types.push_back(input.type);
    EXPECT_NO_THROW(op.infer({types, {}, attrs}));
    const Type right = types.back();
    for (const Type& wrong : {Type{right.dtype, right.shape.with(1, right.shape[1] + 1)},
                              Type{right.dtype, right.shape.with(0, right.shape[0] + 1)},
                              Type{DType::kF32, right.shape}}) {
      types.back() = wrong;
      EXPECT_THROW(op.infer({types, {}, attrs}), Error) << wrong.str();
    }
  }
  EXPECT_GT(residuals, 0);
}

// In double, without rounding, a composite and its expansion are the same function.
TEST(OpTable, CompositesAreTheirExpansion) {
  constexpr double kRounding = 1e-12;  // relative to the largest result
  int composites = 0;
  for (const Op* op : ops::table().all()) {
    if (op->kind != OpKind::kComposite) continue;
    ++composites;
    for (const Case& sample : op->cases()) {
      ops::NamedTensors named;
      Graph graph = graph_of(*op, sample, named);
      std::vector<Tensor64> want = ops::ReferenceRun(graph, named).outputs();
      Builder b(graph, ops::table());
      std::vector<ValueId> made = op->expand(b, Node(graph.nodes[0]));
      ASSERT_EQ(made.size(), want.size()) << op->name;
      ops::ReferenceRun run(graph, named);
      for (size_t o = 0; o < made.size(); ++o) {
        if (made[o] == kNoValue) continue;
        EXPECT_EQ(graph.type(made[o]), want[o].type) << op->name;
        double top = 0;
        for (double x : want[o].data) top = std::max(top, std::abs(x));
        for (size_t i = 0; i < want[o].data.size(); ++i)
          ASSERT_NEAR(run[made[o]][i], want[o].data[i], kRounding * std::max(top, 1.0))
              << op->name << " " << sample.name;
      }
    }
  }
  EXPECT_GE(composites, 5);
}

}  // namespace
}  // namespace ridge
