// SPDX-License-Identifier: Apache-2.0
// The graphs of all families against Hugging Face transformers: with the same weights and ids, they
// have the same logits. They run in double by the ops' references, so that a difference comes from
// the model and not from a kernel.
#include "models/forward_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "files/scratch.h"
#include "graph/verifier.h"
#include "models/config_json.h"
#include "models/inference_names.h"
#include "models/transformers_model.h"
#include "ops/reference_run.h"
#include "ops/registry.h"
#include "small_models.h"

namespace ridge::models {
namespace {

struct TestModel : TransformersModel {
  using TransformersModel::TransformersModel;

  // A whole sequence of t tokens, without a cache.
  ForwardGraph scoring_graph(int64_t t) const {
    InferenceShape shape;
    shape.task = InferenceTask::kScore;
    shape.cached = false;
    shape.tokens = t;
    return build_inference_graph(config, ops::table(), shape,
                                 [](const std::string& name, const Shape&) {
                                   return StoredWeight{name, DType::kF32};
                                 });
  }

  // The logits of both rows, [2 T, V]: by a training graph of both at once, or by a scoring graph
  // one after the other.
  std::vector<double> logits() {
    int64_t t = static_cast<int64_t>(expected["ids"][0].size());
    ForwardGraph forward = build_training_graph(config, ops::table(), 2, t);
    verify(forward.graph);
    ops::NamedTensors named = weights;
    Type tokens{DType::kI32, {2 * t}};
    for (const char* name : {"ids", "positions", "labels"}) named[name] = {tokens, {}};
    for (const auto& row : expected["ids"])
      for (size_t i = 0; i < row.size(); ++i) {
        named["ids"].data.push_back(row[i].get<double>());
        named["positions"].data.push_back(static_cast<double>(i));
        named["labels"].data.push_back(-1);
      }
    return ops::ReferenceRun(forward.graph, named)[forward.logits];
  }
  std::vector<double> scored_logits() {
    int64_t t = static_cast<int64_t>(expected["ids"][0].size());
    ForwardGraph forward = scoring_graph(t);
    verify(forward.graph);
    std::vector<double> both;
    for (const auto& row : expected["ids"]) {
      ops::NamedTensors named = weights;
      for (std::string_view name : {kIds, kPositions, kLabels})
        named[bucket_input(name, t)] = {{DType::kI32, {t}}, {}};
      for (size_t i = 0; i < row.size(); ++i) {
        named[bucket_input(kIds, t)].data.push_back(row[i].get<double>());
        named[bucket_input(kPositions, t)].data.push_back(static_cast<double>(i));
        named[bucket_input(kLabels, t)].data.push_back(-1);
      }
      const std::vector<double> logits = ops::ReferenceRun(forward.graph, named)[forward.logits];
      both.insert(both.end(), logits.begin(), logits.end());
    }
    return both;
  }
};

// expected.json has five decimals of an fp32 computation.
constexpr double kFiveDecimals = 2e-5;

void expect_published_logits(const TestModel& model, const std::vector<double>& logits) {
  int64_t vocabulary = model.config.vocabulary;
  int64_t t = static_cast<int64_t>(logits.size()) / (2 * vocabulary);
  for (int64_t r = 0; r < 2; ++r) {
    size_t row = static_cast<size_t>(r);
    auto begin = logits.begin() + r * t * vocabulary;
    for (int64_t i = 0; i < t; ++i) {
      auto at = begin + i * vocabulary;
      EXPECT_EQ(std::max_element(at, at + vocabulary) - at,
                model.expected["argmax"][row][static_cast<size_t>(i)]);
    }
    auto last = begin + (t - 1) * vocabulary;
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(last[v]);
    EXPECT_NEAR(std::log(sum), model.expected["logsumexp_last"][row].get<double>(), kFiveDecimals);
    for (int64_t v = 0; v < 8; ++v)  // the first eight of the last position
      EXPECT_NEAR(last[v],
                  model.expected["logits_last8"][row][static_cast<size_t>(v)].get<double>(),
                  kFiveDecimals);
  }
}

class Transformers : public testing::TestWithParam<const char*> {};
class TrainingTransformers : public testing::TestWithParam<const char*> {};

TEST_P(Transformers, GivesTheSameLogits) {
  TestModel model(GetParam());
  expect_published_logits(model, model.scored_logits());
}

TEST_P(TrainingTransformers, GivesTheSameLogits) {
  TestModel model(GetParam());
  expect_published_logits(model, model.logits());
}

TEST_P(Transformers, HasTheSameWeightsByTheSameNames) {
  TestModel model(GetParam());
  ForwardGraph forward = model.scoring_graph(4);
  int64_t parameters = 0;
  std::set<std::string> names;
  for (const Value& parameter : forward.graph.values) {
    // A view of a bias has none of its own.
    if (parameter.storage != Storage::kParameter || parameter.name.empty()) continue;
    parameters += parameter.type.shape.elements();
    ASSERT_TRUE(model.weights.contains(parameter.name)) << parameter.name;
    EXPECT_EQ(model.weights.at(parameter.name).type.shape, parameter.type.shape) << parameter.name;
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    EXPECT_TRUE(forward.load.stored.contains(parameter.name));
  }
  EXPECT_EQ(names.size(), model.weights.size());
  EXPECT_EQ(parameters, model.expected["parameters"].get<int64_t>());
  EXPECT_EQ(parameters, model.config.parameters());
}

INSTANTIATE_TEST_SUITE_P(Models,
                         TrainingTransformers,
                         testing::ValuesIn(kSmallModels),
                         [](const auto& each) { return std::string(each.param); });

INSTANTIATE_TEST_SUITE_P(Models,
                         Transformers,
                         testing::ValuesIn(kSmallModels),
                         [](const auto& each) { return std::string(each.param); });

TEST(TrainingGraph, ReturnsTheLossOfItsLogits) {
  TestModel model("llama_fp32");
  ForwardGraph forward = build_training_graph(model.config, ops::table(), 1, 6);
  EXPECT_EQ(forward.graph.outputs, (std::vector<ValueId>{forward.loss}));
  EXPECT_EQ(forward.graph.type(forward.logits), (Type{DType::kF32, {6, 160}}));
  EXPECT_EQ(forward.graph.type(forward.loss), (Type{DType::kF32, {}}));
  ops::NamedTensors named = model.weights;
  Type tokens{DType::kI32, {6}};
  named["ids"] = {tokens, {3, 1, 4, 1, 5, 9}};
  named["positions"] = {tokens, {0, 1, 2, 3, 4, 5}};
  named["labels"] = {tokens, {1, 4, -1, 5, 9, -1}};
  ops::ReferenceRun run(forward.graph, named);
  double sum = 0;
  for (size_t n : {0u, 1u, 3u, 4u}) {
    const double* row = &run[forward.logits][n * 160];
    double total = 0;
    for (size_t v = 0; v < 160; ++v) total += std::exp(row[v]);
    sum += std::log(total) - row[static_cast<size_t>(named["labels"].data[n])];
  }
  EXPECT_NEAR(run[forward.loss][0], sum / 4, 1e-12);
}

// A token attends to itself and to the tokens before it in its own sequence, and to nothing else.
TEST(TrainingGraph, IsCausalAndKeepsSequencesApart) {
  TestModel model("llama_fp32");
  std::vector<double> before = model.logits();
  model.expected["ids"][0][5] = 7;  // token 5 of the first row changes
  std::vector<double> after = model.logits();
  size_t vocabulary = 160, t = before.size() / (2 * vocabulary);
  for (size_t n = 0; n < 2 * t; ++n) {
    bool same = std::equal(&before[n * vocabulary], &before[n * vocabulary] + vocabulary,
                           &after[n * vocabulary]);
    EXPECT_EQ(same, n < 5 || n >= t) << "token " << n;
  }
}

TEST(TrainingGraph, NamesScopesByLayerAndPart) {
  ForwardGraph forward = build_training_graph(preset("tiny").config, ops::table(), 1, 4);
  std::set<std::string> scopes;
  for (const Node& node : forward.graph.nodes) scopes.insert(node.scope);
  std::set<std::string> want{"embedding", "head"};
  for (int layer = 0; layer < 4; ++layer)
    for (const char* part : {"attention", "mlp"})
      want.insert(fmt::format("layer.{}/{}", layer, part));
  EXPECT_EQ(scopes, want);
}

// Only the kinds of layers that a model has get a table of rotations, so none is left unread.
TEST(InferenceGraph, HasTheTablesOfItsLayers) {
  ModelConfig config = load_config(test_data("models/gemma3_bf16"));
  InferenceShape shape;
  shape.cache = cache_shape({.capacity = 16, .window = config.window});
  auto tables = [&](std::vector<bool> windows) {
    config.is_window_layer = std::move(windows);
    config.layers = std::ssize(config.is_window_layer);
    const ForwardGraph forward = build_inference_graph(
        config, ops::table(), shape,
        [](const std::string& name, const Shape&) { return StoredWeight{name}; });
    return std::ranges::count_if(forward.graph.nodes,
                                 [](const Node& node) { return node.op->name == "rope_table"; });
  };
  EXPECT_EQ(tables({true, true}), 1);
  EXPECT_EQ(tables({false, false}), 1);
  EXPECT_EQ(tables({true, false}), 2);
}

// Ids, positions and slots have 32 bits.
TEST(ForwardGraph, RefusesMoreTokensThanPositionsCanName) {
  const ModelConfig& config = preset("tiny").config;
  const int64_t one_more = int64_t{1} << 31;
  files::expect_error([&] { build_training_graph(config, ops::table(), one_more / 4, 4); },
                      ExitCode::kOutOfMemory, "[tokens]");
  InferenceShape shape;
  shape.cache = cache_shape({.capacity = 16, .window = config.window});
  shape.tokens = one_more;
  files::expect_error(
      [&] {
        build_inference_graph(
            config, ops::table(), shape,
            [](const std::string& name, const Shape&) { return StoredWeight{name}; });
      },
      ExitCode::kOutOfMemory, "[tokens]");
}

TEST(TrainingGraph, RefusesSizesThatAreNone) {
  const ModelConfig& config = preset("tiny").config;
  for (auto [batch, sequence] :
       {std::pair<int64_t, int64_t>{0, 4}, {4, 0}, {-1, 4}, {int64_t{1} << 40, int64_t{1} << 40}})
    EXPECT_THROW(build_training_graph(config, ops::table(), batch, sequence), Error)
        << batch << " " << sequence;
  ModelConfig broken = config;
  broken.head_size = 31;
  EXPECT_THROW(build_training_graph(broken, ops::table(), 1, 4), Error);
}

}  // namespace
}  // namespace ridge::models
