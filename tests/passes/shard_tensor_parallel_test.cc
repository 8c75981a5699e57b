// SPDX-License-Identifier: Apache-2.0
// Tests of shard_tensor_parallel: a rank computes its heads and columns, and the ranks' products
// add up to those of the whole model.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

constexpr int64_t kRanks = 2;

// The pass with a number of ranks, as "+shard_tensor_parallel=2" runs it.
Graph shard(const Graph& graph, LoadGraph& load, int64_t ranks = kRanks) {
  PassContext context{ops::table(), target(), load};
  context.number = ranks;
  return run_shard_tensor_parallel(graph, context);
}

// The tensor of the whole model of which each rank has `own`.
Tensor64 repeated(const Tensor64& own, const Type& whole) {
  Tensor64 made{whole, {}};
  const int64_t columns = whole.shape.back(), own_columns = own.type.shape.back();
  const int64_t own_rows = own.type.shape.elements() / own_columns;
  for (int64_t i = 0; i < whole.shape.elements(); ++i)
    made.data.push_back(own.data[static_cast<size_t>(i / columns % own_rows * own_columns +
                                                     i % columns % own_columns)]);
  return made;
}

// If all ranks have the same parts, the reference of all_reduce, which has one process, gives the
// sum over all of them.
void expect_same_loss(const models::ModelConfig& config) {
  models::ForwardGraph forward = models::build_training_graph(config, ops::table(), 1, 4);
  const Graph after = shard(forward.graph, forward.load);
  verify(after);
  verify_origins(forward.graph, after);
  ops::NamedTensors own = draw_named(after), whole;
  for (const Value& value : forward.graph.values)
    if (value.producer == kNoNode) whole[value.name] = repeated(own.at(value.name), value.type);
  // A tied table is whole, and its part is stored beside it.
  if (const auto part = own.find("model.embed_tokens.weight.shard"); part != own.end()) {
    Tensor64& table = whole.at("model.embed_tokens.weight");
    own.at("model.embed_tokens.weight") = table = repeated(part->second, table.type);
  }
  ops::ReferenceRun want(forward.graph, whole), got(after, own);
  expect_close(want[forward.graph.outputs[0]], got[after.outputs[0]], "the loss");
}

TEST(ShardTensorParallel, CutsHeadsAndColumnsAndAddsUp) {
  models::ForwardGraph forward = models::build_training_graph(four_heads(2, 4), ops::table(), 1, 4);
  const std::string text = print(forward.graph);
  expect_golden("shard_tensor_parallel.before.txt", text);
  const Graph after = shard(forward.graph, forward.load);
  expect_golden("shard_tensor_parallel.after.txt", print(after));
  EXPECT_EQ(print(after), print(parse_graph(print(after), ops::table())));
  EXPECT_EQ(print(after), print(shard(after, forward.load))) << "the pass does not come to an end";
  EXPECT_EQ(count(after, "all_reduce"), 2);
  EXPECT_EQ(count(after, "all_gather"), 1);
  expect_same_loss(four_heads(2, 4));
}

TEST(ShardTensorParallel, RanksBeyondTheKvHeadsShareThem) { expect_same_loss(four_heads(1, 4)); }

TEST(ShardTensorParallel, CutsBiasesAndLeavesNormsOfHeads) {
  models::ModelConfig config = four_heads(2, 4);
  config.family = models::Family::kQwen3;
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  expect_same_loss(config);
}

// Gemma's norms follow the sums.
TEST(ShardTensorParallel, AddsUpBeforeNormsThatFollow) {
  models::ModelConfig config = four_heads(1, 4);
  config.family = models::Family::kGemma3;
  expect_same_loss(config);
}

TEST(ShardTensorParallel, GathersTheLogitsOfAHeadOfItsOwn) {
  models::ModelConfig config = four_heads(2, 4);
  config.tied_head = false;
  expect_same_loss(config);
  models::ForwardGraph forward = models::build_training_graph(config, ops::table(), 1, 4);
  const Graph after = shard(forward.graph, forward.load);
  EXPECT_EQ(after.shape(after.find("lm_head.weight")), Shape({16, 16}));
  EXPECT_EQ(after.find("lm_head.weight.shard"), kNoValue);
}

TEST(ShardTensorParallel, AVocabularyThatRanksDoNotDivideStaysWhole) {
  models::ModelConfig config = four_heads(2, 4);
  config.vocabulary = 33;
  models::ForwardGraph forward = models::build_training_graph(config, ops::table(), 1, 4);
  EXPECT_EQ(count(shard(forward.graph, forward.load), "all_gather"), 0);
}

// Logits that are sampled from stay in fp32.
TEST(ShardTensorParallel, GathersWideLogits) {
  models::InferenceShape shape;
  shape.cache = models::cache_shape({.capacity = 4});
  const auto lookup = [](const std::string& name, const Shape&) {
    return models::StoredWeight{name, DType::kF32};
  };
  models::ForwardGraph forward =
      models::build_inference_graph(four_heads(2, 4), ops::table(), shape, lookup);
  PassContext context{ops::table(), target(), forward.load};
  const Graph after = run_autocast_bf16(shard(forward.graph, forward.load), context);
  for (const Node& node : after.nodes) {
    if (!is_collective(node)) continue;
    const DType want = node.op->name == "all_gather" ? DType::kF32 : DType::kBF16;
    EXPECT_EQ(after.type(node.outputs[0]).dtype, want);
  }
  EXPECT_EQ(count(after, "all_gather"), 1);
}

// A rank has consecutive columns of o and down, whose order would need those of all ranks.
TEST(ShardTensorParallel, RefusesColumnsInAnotherOrder) {
  models::InferenceShape shape;
  shape.cache = models::cache_shape({.capacity = 4});
  for (const char* ordered : {"q_proj", "o_proj"}) {
    const auto lookup = [&](const std::string& name, const Shape&) {
      const bool has_order = name.find(ordered) != name.npos;
      return models::StoredWeight{name, DType::kF32, has_order ? "order" : ""};
    };
    models::ForwardGraph forward =
        models::build_inference_graph(four_heads(1), ops::table(), shape, lookup);
    if (ordered == std::string("q_proj")) {
      EXPECT_NO_THROW(shard(forward.graph, forward.load));
    } else {
      EXPECT_THROW(shard(forward.graph, forward.load), Error);
    }
  }
}

// Launches, bytes and the cache of a decode step.
TEST(ShardTensorParallel, ARankHasItsPartOfTheCacheAndTheWork) {
  const models::ModelConfig config = four_heads(2, 4);
  models::InferenceShape shape;
  shape.task = models::InferenceTask::kDecode;
  shape.context = 4;
  shape.cache = models::cache_shape({.capacity = 4});
  const auto lookup = [](const std::string& name, const Shape&) {
    return models::StoredWeight{name, DType::kF32};
  };
  models::ForwardGraph forward = models::build_inference_graph(config, ops::table(), shape, lookup);
  const Graph after = shard(forward.graph, forward.load);
  verify(after);
  EXPECT_EQ(after.shape(after.find("cache.0.keys")), Shape({1, 4, 1, 4}));
  EXPECT_EQ(after.shape(after.find("model.layers.0.self_attn.q_proj.weight")), Shape({8, 16}));
  EXPECT_EQ(after.shape(after.find("model.layers.0.mlp.down_proj.weight")), Shape({16, 12}));
  EXPECT_LT(planned_cost(after).bytes, planned_cost(forward.graph).bytes);
}

// Only the load graph differs between ranks.
TEST(ShardTensorParallel, EachRankLoadsItsOwnPart) {
  std::string texts[kRanks];
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    models::ForwardGraph forward =
        models::build_training_graph(four_heads(2, 4), ops::table(), 1, 4);
    forward.load.rank = rank;
    texts[rank] = print(shard(forward.graph, forward.load));
    const auto slice = [&](const std::string& name) {
      const ValueId value = forward.load.stored.at("model.layers.0." + name + ".weight");
      const Attrs& attrs = forward.load.graph.producer(value)->attrs;
      return std::vector<int64_t>{attrs.integer("axis"), attrs.integer("begin"),
                                  attrs.integer("end")};
    };
    EXPECT_EQ(slice("self_attn.q_proj"), (std::vector<int64_t>{0, 8 * rank, 8 * rank + 8}));
    EXPECT_EQ(slice("self_attn.v_proj"), (std::vector<int64_t>{0, 4 * rank, 4 * rank + 4}));
    EXPECT_EQ(slice("self_attn.o_proj"), (std::vector<int64_t>{1, 8 * rank, 8 * rank + 8}));
    EXPECT_EQ(slice("mlp.down_proj"), (std::vector<int64_t>{1, 12 * rank, 12 * rank + 12}));
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(ShardTensorParallel, RefusesOtherNumbersOfRanks) {
  const auto error = [](const models::ModelConfig& config, int64_t ranks) -> std::string {
    models::ForwardGraph forward = models::build_training_graph(config, ops::table(), 1, 4);
    try {
      shard(forward.graph, forward.load, ranks);
    } catch (const Error& caught) {
      return caught.what();
    }
    return "";
  };
  EXPECT_EQ(error(four_heads(2, 4), 4), "");
  EXPECT_NE(error(four_heads(2, 4), 3).find("expected 1, 2, 4 ranks"), std::string::npos);
  models::ModelConfig config = four_heads(2, 4);
  config.feed_forward = 22;
  EXPECT_NE(error(config, 4).find("expected 1, 2 ranks"), std::string::npos);
}

}  // namespace
}  // namespace ridge::passes
