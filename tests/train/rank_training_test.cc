// SPDX-License-Identifier: Apache-2.0
// Ranks train together as one process trains alone, however they divide the model and the batch.
#include <map>
#include <mutex>

#include "files/scratch.h"
#include "train/saved_state.h"
#include "train/trainer_ranks.h"

namespace ridge::train {
namespace {

using passes::PipelineOrder;

struct Case {
  const char* name;
  plan::RankLayout layout;
  const char* switches;
  PipelineOptions pipeline = {};
  const char* alone = "";  // the switches of the process to compare with
  friend void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }
};

models::ModelConfig four_layers() {
  models::ModelConfig config = small_config();
  config.layers = 4;
  return config;
}

StepOptions options_of(const Case& each, int64_t batch_size) {
  StepOptions options = small_step(kLearningByHeart);
  options.batch_size = batch_size;
  options.micro_batches = 4;
  options.optimizer.clip_norm = 0.5;
  options.evaluates = options.separates_update = true;
  options.pipeline = each.pipeline;
  return options;
}

// The losses and norms that four steps show, of which the third has no update.
struct Shown {
  std::vector<double> losses, norms;
  std::vector<bool> skipped;
  double evaluated = 0;
  std::vector<SavedTensor> weights;
};

Shown train(Trainer& trainer) {
  Shown shown;
  int64_t asked = 0;
  trainer.guard([&](double) { return ++asked == 3; });
  SyntheticData data = synthetic_data(trainer);
  run_loop(trainer, data, 0, 4, [&](int64_t, const StepResult& result) {
    shown.losses.push_back(result.loss);
    shown.norms.push_back(result.gradient_norm);
    shown.skipped.push_back(result.skipped);
  });
  SyntheticData other(trainer.config().vocabulary, trainer.options().sequence, 9);
  const std::vector<Batch> batch{other.next(trainer.options().batch_size)};
  shown.evaluated = trainer.evaluate(batch);
  shown.weights = saved_tensors(trainer);
  return shown;
}

class RankTraining : public testing::TestWithParam<Case> {};

TEST_P(RankTraining, IsThatOfOneProcess) {
  const Case& each = GetParam();
  const auto backend = cpu_backend(1);
  const StepOptions of_all = options_of(Case{"", {}, ""}, 2);
  Trainer one({four_layers(), of_all, passes::Selection("baseline", each.alone)}, *backend);
  const Shown expected = train(one);
  EXPECT_EQ(expected.skipped, (std::vector<bool>{false, false, true, false}));
  EXPECT_GT(expected.norms[0], 0.5) << "it is clipped";
  const int64_t copies = each.layout.data;
  std::mutex mutex;
  std::vector<double> losses(4);
  run_trainers(
      each.layout, options_of(each, 2 / copies), each.switches,
      [&](TrainerRank& rank) {
        const Shown shown = train(*rank.trainer);
        EXPECT_EQ(shown.skipped, expected.skipped);
        ASSERT_EQ(shown.losses.size(), 4u);
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_NEAR(shown.norms[i], expected.norms[i], 2e-3 * std::abs(expected.norms[i])) << i;
          // Each copy has the loss of its own sequences.
          EXPECT_NEAR(shown.losses[i], expected.losses[i], copies == 1 ? 2e-3 : 1) << i;
        }
        EXPECT_NEAR(shown.evaluated, expected.evaluated, copies == 1 ? 2e-3 : 1);
        ASSERT_EQ(shown.weights.size(), expected.weights.size());
        for (size_t i = 0; i < shown.weights.size(); ++i)
          for (size_t k = 0; k < shown.weights[i].values.size(); ++k)
            ASSERT_NEAR(shown.weights[i].values[k], expected.weights[i].values[k], 5e-3)
                << shown.weights[i].name;
        const std::lock_guard lock(mutex);
        for (size_t i = 0; i < 4; ++i)
          losses[i] += shown.losses[i] / static_cast<double>(each.layout.ranks());
      },
      four_layers());
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(losses[i], expected.losses[i], 2e-3) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    RankTraining,
    testing::Values(Case{"Copies", {2, 1, 1}, "+data_parallel=2"},
                    Case{"SharedStates", {2, 1, 1}, "+zero=3"},
                    Case{"Tensor", {1, 2, 1}, "+train_tensor_parallel=2"},
                    Case{"SequencesToo", {1, 2, 1}, "+train_tensor_parallel=2,+sequence_parallel"},
                    Case{"Stages", {1, 1, 2}, ""},
                    Case{"ZeroBubble", {1, 1, 2}, "", {PipelineOrder::kZeroBubble, 1}},
                    Case{"Interleaved", {1, 1, 2}, "", {PipelineOrder::kInterleaved, 2}},
                    Case{"StagesOfTwo", {1, 2, 2}, "+train_tensor_parallel=2"},
                    Case{"CopiesOfStages", {2, 1, 2}, "+data_parallel=2"},
                    Case{"StatesOfStages", {2, 1, 2}, "+zero=2"},
                    Case{"HalfStages", {1, 1, 2}, "+autocast_f16", {}, "+autocast_f16"}),
    [](const auto& each) { return std::string(each.param.name); });

// The hash of a model is of all its weights, so a stage reads those of the others too.
TEST(RankWeights, AreAllReadByEachStage) {
  const Weights weights = lively_weights(small_config());
  for (const plan::RankLayout layout :
       {plan::RankLayout{1, 1, 2}, plan::RankLayout{1, 2, 1}, plan::RankLayout{1, 2, 2}})
    run_trainers(
        layout, small_step(), layout.tensor > 1 ? "+train_tensor_parallel=2" : "",
        [&](TrainerRank& rank) {
          std::map<std::string, int> asked;
          StepSetup setup{
              small_config(), rank.trainer->options(),
              passes::Selection("baseline", layout.tensor > 1 ? "+train_tensor_parallel=2" : "")};
          const Trainer trainer(setup, *rank.backend, nullptr,
                                [&](const std::string& name, const Type& type) {
                                  ++asked[name];
                                  EXPECT_EQ(type.shape.elements(), std::ssize(weights.at(name)));
                                  return weights.at(name);
                                });
          EXPECT_EQ(asked.size(), weights.size());
          for (const auto& [name, times] : asked) EXPECT_EQ(times, 1) << name;
        });
}

// Adapters are drawn, also beside weights that are read.
TEST(RankWeights, LeaveAdaptersToBeDrawn) {
  const Weights weights = lively_weights(small_config());
  const auto backend = cpu_backend(1);
  size_t asked = 0;
  const Trainer trainer({small_config(), small_step(), passes::Selection("baseline", "+lora")},
                        *backend, nullptr, [&](const std::string& name, const Type&) {
                          ++asked;
                          return weights.at(name);
                        });
  EXPECT_EQ(asked, weights.size());
  for (const SavedTensor& each : saved_tensors(trainer))
    EXPECT_EQ(each.values, initial_adapter(each.name, each.shape, kSyntheticSeed)) << each.name;
}

TEST(StageGraphs, NeedAParameterToTrainInEachPart) {
  const auto backend = cpu_backend(1);
  const auto build = [&](int64_t stage, std::vector<std::string> frozen) {
    StepOptions options = small_step();
    options.micro_batches = 2;
    options.shard.stage = stage, options.shard.stages = 2;
    options.frozen = std::move(frozen);
    return build_step({small_config(), options, passes::Selection("baseline", "")}, *backend);
  };
  const std::vector<std::string> second{"model.layers.1.*", "model.norm.weight",
                                        "model.embed_tokens.weight"};
  EXPECT_EQ(build(0, second).graphs.size(), 2u);
  files::expect_error(
      [&] { build(1, second); }, ExitCode::kUsage,
      "[freeze] expected patterns that leave each part of the pipeline a parameter to train");
  EXPECT_EQ(build(1, {"model.layers.1.*", "model.embed_tokens.weight"}).graphs.size(), 2u);
}

// The graphs of a stage are those that the options ask for.
TEST(StageGraphs, AreThoseThatAreAskedFor) {
  const auto backend = cpu_backend(1);
  StepOptions options = small_step();
  options.micro_batches = 3;
  options.shard.stages = 2;
  const auto build = [&](const char* switches) {
    return build_step({small_config(), options, passes::Selection("baseline", switches)}, *backend);
  };
  const TrainingStep plain = build("");
  ASSERT_EQ(plain.graphs.size(), 2u);
  EXPECT_EQ(plain.graphs[0].name, "accumulate");
  EXPECT_EQ(plain.graphs[0].repeat, 1);
  EXPECT_EQ(plain.graphs[0].micro_batches, 3);
  EXPECT_TRUE(plain.graphs[0].has_loss);
  EXPECT_EQ(plain.graphs[1].name, "update");
  EXPECT_EQ(plain.graphs[1].micro_batches, 1);
  EXPECT_FALSE(plain.graphs[1].has_loss);
  EXPECT_FALSE(plain.graphs[1].has_norm);
  EXPECT_FALSE(plain.graphs[1].has_scale);
  EXPECT_FALSE(plain.discard);
  EXPECT_FALSE(plain.evaluation);
  options.evaluates = true;
  EXPECT_TRUE(build("").evaluation);
  EXPECT_FALSE(build("").discard);
  options.evaluates = false, options.separates_update = true;
  EXPECT_FALSE(build("").evaluation);
  EXPECT_TRUE(build("").discard);
  EXPECT_TRUE(build("+autocast_f16").graphs[1].has_scale);
}

}  // namespace
}  // namespace ridge::train
