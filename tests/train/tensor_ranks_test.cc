// SPDX-License-Identifier: Apache-2.0
// Ranks that share a model load their own parts of its weights.
#include "train/small_run.h"

namespace ridge::train {
namespace {

// The rows of gate_proj and the columns of down_proj that a rank of two has.
std::pair<std::vector<float>, std::vector<float>> loaded(int64_t rank, const Weights& weights) {
  StepSetup setup{small_config(), small_step(),
                  passes::Selection("baseline", "+shard_tensor_parallel=2")};
  setup.step.shard.tensor_rank = rank;
  setup.step.shard.tensor_ranks = 2;
  const auto backend = cpu_backend(1);
  const TrainingStep step = build_step(setup, *backend);
  runtime::Store store(*backend);
  for (const StepGraph& each : step.graphs)
    for (const Value& value : each.graph.values)
      if (value.storage == Storage::kParameter && value.producer == kNoNode)
        store.require(value.name, value.type);
  runtime::load_parameters(
      step.load, [&](const std::string& name, const Type&) { return weights.at(name); }, store);
  return {store.read_floats("model.layers.1.mlp.gate_proj.weight"),
          store.read_floats("model.layers.1.mlp.down_proj.weight")};
}

TEST(TensorRanks, LoadTheirOwnPartsOfTheWeights) {
  const models::ModelConfig config = small_config();
  const Weights weights = lively_weights(config);
  const std::vector<float>& gate = weights.at("model.layers.1.mlp.gate_proj.weight");
  const std::vector<float>& down = weights.at("model.layers.1.mlp.down_proj.weight");
  const auto half = static_cast<size_t>(config.feed_forward) / 2;
  const auto hidden = static_cast<size_t>(config.hidden);
  for (const size_t rank : {0, 1}) {
    const auto [rows, columns] = loaded(static_cast<int64_t>(rank), weights);
    ASSERT_EQ(rows.size(), half * hidden);
    ASSERT_EQ(columns.size(), half * hidden);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i], gate[rank * half * hidden + i]);
      EXPECT_EQ(columns[i], down[i / half * 2 * half + rank * half + i % half]);
    }
  }
}

}  // namespace
}  // namespace ridge::train
