// SPDX-License-Identifier: Apache-2.0
// Tests of zero: ranks store parts of parameters and moments, and update them by their parts of
// gradients.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

struct Place {
  int64_t stage = 1, rank = 0, ranks = 2;
};

Graph run_at(const Place& place, const Graph& graph, LoadGraph& load) {
  PassContext context{ops::table(), target(), load};
  context.number = place.stage;
  context.rank = place.rank;
  context.ranks = place.ranks;
  const Graph after = run_zero(graph, context);
  verify(after);
  verify_origins(graph, after);
  EXPECT_EQ(print(after), print(run_zero(after, context))) << "the pass does not come to an end";
  return after;
}

TEST(Zero, StoresPartsOfParametersAndMoments) {
  train::OptimizerOptions options;
  options.clip_norm = 0.5;
  const Graph before = with_step(perceptron(), options);
  LoadGraph load = identity_load(before);
  expect_golden("zero.before.txt", print(before));
  const Graph after = run_at({.stage = 3, .ranks = 4}, before, load);
  expect_golden("zero.after.txt", print(after));
  for (const ValueId each : parameters(after)) EXPECT_EQ(after.shape(each), Shape{48 / 4});
}

// The forward pass alone, as a stage of a pipeline has it behind its gradients.
TEST(Zero, AveragesALossThatTheLastNodeMakes) {
  const Graph before = perceptron();
  LoadGraph load = identity_load(before);
  const Graph after = run_at({}, before, load);
  EXPECT_EQ(after.producer(after.outputs[0])->op->name, "all_reduce");
}

// A single rank's part is all of a tensor.
TEST(Zero, KeepsTheMeaningOnOneRank) {
  const Graph before = with_step(perceptron());
  for (const int64_t stage : {1, 2, 3}) {
    LoadGraph load = identity_load(before);
    const Graph after = run_at({stage, 0, 1}, before, load);
    const ops::NamedTensors named = draw_named(before);
    ops::NamedTensors parts = draw_named(after);
    for (auto& [name, tensor] : parts)
      if (named.contains(name)) tensor = named.at(name);
    for (const char* name : {"up.weight", "down.weight"})
      for (const char* state : {"", ".adamw_m", ".adamw_v"})
        parts.at(fmt::format("{}.shard{}", name, state)).data =
            named.at(fmt::format("{}{}", name, state)).data;
    ops::ReferenceRun want(before, named), got(after, parts);
    expect_close(want[before.outputs[0]], got[after.outputs[0]], "the loss");
    for (const char* name : {"up.weight", "down.weight"})
      expect_close(want.stored().at(name).data, got.stored().at(fmt::format("{}.shard", name)).data,
                   name);
  }
}

// Five ranks do not divide 48 elements: the last part ends with zeros.
TEST(Zero, LoadsThePartsOfAllRanks) {
  const Graph before = with_step(perceptron());
  const ops::NamedTensors file = draw_named(before);
  std::vector<double> joined;
  for (int64_t rank = 0; rank < 5; ++rank) {
    LoadGraph load = identity_load(before);
    run_at({1, rank, 5}, before, load);
    const std::vector<double> part = stored(load, file).at("up.weight.shard").data;
    ASSERT_EQ(part.size(), 10u);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  std::vector<double> want = file.at("up.weight").data;
  want.resize(50);
  EXPECT_EQ(joined, want);
}

train::TrainingStep step_of(int64_t stage, int64_t micro_batches, const char* more = "") {
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = 4;
  options.micro_batches = micro_batches;
  options.shard = {1, 2, nullptr};
  options.optimizer.clip_norm = 1;
  return train::build_step(
      {one_layer(), options, Selection("kernels", fmt::format("+zero={}{}", stage, more))},
      target());
}

TEST(Zero, ScattersGradientsWhereTheyAreSummed) {
  for (const auto& [stage, in_accumulate, in_update] :
       {std::tuple(1, 0, 1), std::tuple(2, 1, 0), std::tuple(3, 1, 0)}) {
    const train::TrainingStep step = step_of(stage, 4);
    EXPECT_EQ(count(step.graphs[0].graph, "reduce_scatter"), in_accumulate) << stage;
    EXPECT_EQ(count(step.graphs[1].graph, "reduce_scatter"), in_update) << stage;
    EXPECT_EQ(count(step.graphs[1].graph, "all_reduce"), 1) << "the norm of the gradients";
  }
}

TEST(Zero, GathersAgainForTheBackwardPassInStageThree) {
  const int64_t once = count(step_of(2, 1).graphs[0].graph, "all_gather"),
                again = count(step_of(3, 1).graphs[0].graph, "all_gather");
  EXPECT_GT(once, 1);
  EXPECT_GT(again, once);
}

// The step stores and gathers 16 bits where it casts parameters; the masters are parts in fp32.
TEST(Zero, Gathers16Bits) {
  const Graph graph = step_of(1, 1, ",+autocast_bf16").graphs[0].graph;
  int64_t narrow = 0;
  for (const Node& node : graph.nodes)
    if (node.op->name == "all_gather")
      for (const ValueId input : node.inputs) narrow += graph.type(input).dtype == DType::kBF16;
  EXPECT_GT(narrow, 3);
  for (const ValueId each : parameters(graph))
    EXPECT_TRUE(graph.value(each).name.find(".shard") != std::string::npos);
}

TEST(Zero, TakesAStage) {
  EXPECT_THROW(step_of(0, 1), Error);
  EXPECT_THROW(step_of(4, 1), Error);
}

}  // namespace
}  // namespace ridge::passes
