// SPDX-License-Identifier: Apache-2.0
// Documents packed into rows: loss, gradients and checkpoints against each document alone, and all
// levels against the baseline.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "files/scratch.h"
#include "train/checkpoint.h"
#include "train/small_run.h"
#include "train/token_batches.h"

namespace ridge::train {
namespace {

constexpr int64_t kRow = 48;
// Lengths of documents; the second row begins inside the third one.
constexpr int64_t kLengths[] = {5, 20, 37, 1, 2, 31};

StepOptions packed_step(int64_t batch_size = 2, int64_t sequence = kRow) {
  StepOptions options = small_step(kLearningByHeart);
  options.batch_size = batch_size;
  options.sequence = sequence;
  options.packing = models::Packing::kDocuments;
  return options;
}

models::ModelConfig long_config() {
  models::ModelConfig config = small_config();
  config.context = 2 * kRow;
  return config;
}

TokenBatches documents(int64_t sequence) {
  std::vector<int32_t> ids;
  std::vector<int64_t> starts;
  Random random(11);
  // One id more than two rows, for the last label.
  for (const int64_t length : kLengths) {
    starts.push_back(std::ssize(ids));
    for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(random.below(64)));
  }
  ids.push_back(7);
  std::vector<WeightedData> data;
  data.push_back({text::TokenSet::of_ids(std::move(ids), 64, "documents", std::move(starts)), 1});
  return {std::move(data), sequence, 64, 3, models::Packing::kDocuments};
}

// Cuts a batch at position 0 into documents, each a batch of one row.
std::vector<Batch> alone(const Batch& packed) {
  std::vector<Batch> documents;
  for (size_t i = 0; i < packed.ids.size(); ++i) {
    if (packed.positions[i] == 0) documents.emplace_back();
    documents.back().ids.push_back(packed.ids[i]);
    documents.back().positions.push_back(packed.positions[i]);
    documents.back().labels.push_back(packed.labels[i]);
  }
  return documents;
}

struct LossAndGradients {
  double loss = 0;  // the sum over labels
  int64_t labels = 0;
  Weights gradients;  // the gradients of that sum
};

// The loss of one batch and its gradients, as the step accumulates them.
LossAndGradients differentiate(const Batch& batch,
                               const StepOptions& given,
                               std::string_view level) {
  StepOptions options = given;
  options.separates_update = true;
  auto backend = cpu_backend(2);
  const TrainingStep step =
      build_step({long_config(), options, passes::Selection(level, "")}, *backend);
  runtime::Store store(*backend);
  runtime::Program program(*backend, store);
  program.add("accumulate", step.graphs[0].graph, 1);
  const Weights weights = lively_weights(long_config());
  runtime::load_parameters(
      step.load, [&](const std::string& name, const Type&) { return weights.at(name); }, store);
  program.bind();
  for (const auto& [name, values] :
       {std::pair{"ids", &batch.ids}, {"positions", &batch.positions}, {"labels", &batch.labels}})
    store.write(name, values->data(), static_cast<int64_t>(values->size() * sizeof(int32_t)));
  program.run(0);
  LossAndGradients result;
  result.labels = std::count_if(batch.labels.begin(), batch.labels.end(),
                                [](int32_t label) { return label >= 0; });
  const auto labels = static_cast<double>(result.labels);
  result.loss =
      labels * static_cast<double>(program.read(0, program.graph(0).graph().outputs[0])[0]);
  runtime::save_states(step.load, store, ".gradient",
                       [&](const std::string& name, const Type&, std::vector<float> data) {
                         for (float& x : data) x *= static_cast<float>(labels);
                         result.gradients[name] = std::move(data);
                       });
  return result;
}

class PackingTest : public testing::TestWithParam<const char*> {};

TEST_P(PackingTest, LossAndGradientsAreThoseOfEachDocumentAlone) {
  TokenBatches batches = documents(kRow);
  const Batch packed = batches.next(2);
  const LossAndGradients together = differentiate(packed, packed_step(), GetParam());
  LossAndGradients sum;
  const std::vector<Batch> each = alone(packed);
  EXPECT_EQ(each.size(), 7u);  // one document is cut
  for (const Batch& document : each) {
    StepOptions options = packed_step(1, std::ssize(document.ids));
    options.packing = models::Packing::kNone;
    if (options.sequence == 1) continue;  // predicts nothing
    const LossAndGradients one = differentiate(document, options, GetParam());
    sum.loss += one.loss;
    sum.labels += one.labels;
    for (const auto& [name, values] : one.gradients) {
      std::vector<float>& to = sum.gradients[name];
      to.resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) to[i] += values[i];
    }
  }
  const auto labels = static_cast<double>(together.labels);
  EXPECT_EQ(together.labels, sum.labels);
  EXPECT_NEAR(together.loss / labels, sum.loss / labels, 1e-5);
  ASSERT_EQ(together.gradients.size(), sum.gradients.size());
  for (const auto& [name, values] : together.gradients)
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(static_cast<double>(values[i]) / labels,
                  static_cast<double>(sum.gradients[name][i]) / labels, 1e-5)
          << name << " " << i;
}

TEST_P(PackingTest, TrainingFollowsTheBaseline) {
  const auto follow = [](std::string_view level) {
    auto backend = cpu_backend(2);
    Trainer trainer({long_config(), packed_step(), passes::Selection(level, "")}, *backend);
    TokenBatches batches = documents(kRow);
    std::vector<double> losses;
    run_loop(trainer, batches, 0, 10, [&](int64_t, const StepResult& result) {
      losses.push_back(result.loss);
      EXPECT_LT(result.attended, 0.5);
      EXPECT_GT(result.attended, 0.1);
    });
    return losses;
  };
  // Other orders of fp32 sums: ten steps differ by 7e-7 on an AVX2 machine.
  EXPECT_LT(largest_difference(follow("baseline"), follow(GetParam())), 1e-5);
}

TEST_P(PackingTest, AResumedRunIsBitwiseTheUnbrokenOne) {
  const files::ScratchFolder folder;
  auto backend = cpu_backend(2);
  const passes::Selection selection(GetParam(), "");
  const auto steps = [](Trainer& trainer, TokenBatches& batches, int64_t end) {
    std::vector<double> losses;
    run_loop(trainer, batches, trainer.steps(), end,
             [&](int64_t, const StepResult& result) { losses.push_back(result.loss); });
    return losses;
  };
  Trainer whole({long_config(), packed_step(1), selection}, *backend);
  TokenBatches batches = documents(kRow);
  const std::vector<double> losses = steps(whole, batches, 7);
  {
    Trainer first({long_config(), packed_step(1), selection}, *backend);
    TokenBatches some = documents(kRow);
    steps(first, some, 3);
    TrainingState state;
    state.step = 3;
    state.windows = some.place();
    state.settings = {{"pack", "documents"}};
    CheckpointWriter writer(folder / "c", {}, nullptr);
    writer.save(first, state, 0);
    writer.wait();
  }
  Trainer second({long_config(), packed_step(1), selection}, *backend);
  std::vector<RefusedCheckpoint> refused;
  const auto found = newest_checkpoint(folder / "c", refused);
  ASSERT_TRUE(found);
  restore(*found, second);
  TokenBatches rest = documents(kRow);
  rest.seek(found->state.windows);
  EXPECT_EQ(steps(second, rest, 7), std::vector<double>(losses.begin() + 3, losses.end()));
}

INSTANTIATE_TEST_SUITE_P(Levels, PackingTest, every_level(), level_name<const char*>);

}  // namespace
}  // namespace ridge::train
