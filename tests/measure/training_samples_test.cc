// SPDX-License-Identifier: Apache-2.0
// Texts of a model in training: when they are due, and that training goes on as if there were none.
#include "measure/training_samples.h"

#include "models/tokenizer_file.h"
#include "serve/bytes_tokenizer.h"
#include "serve/session_choice.h"
#include "train/small_run.h"
#include "train/training_loop.h"

namespace ridge::measure {
namespace {

using train::cpu_backend;
using train::small_config;
using train::small_step;

models::TokenizerFile tokenizer() {
  return {serve::bytes_tokenizer(small_config().vocabulary).spec(), "", "test"};
}

SampleMachine machine() {
  return {serve::inference_selection({}, "compiled", "-tune_gemm"), cpu_backend(1)};
}

TEST(TrainingSamples, AreDueEachSoManyStepsAndChangeNoLoss) {
  const models::TokenizerFile file = tokenizer();
  SampleOptions options;
  options.every = 2;
  options.tokens = 3;
  options.sampling.temperature = 0;
  const auto losses_of = [&](bool sampled) {
    auto backend = cpu_backend(1);
    train::Trainer trainer({small_config(), small_step(1e-2), passes::Selection("baseline", "")},
                           *backend);
    train::SyntheticData data = train::synthetic_data(trainer);
    TrainingSamples samples(options, machine(), &file, small_config().context);
    std::vector<record::TrainingSample> made;
    samples.begin(trainer, 0, [&](const auto& each) { made.push_back(each); });
    std::vector<double> losses;
    train::StepListener listener(
        [&](const train::StepEvent& event) { losses.push_back(event.result.loss); });
    train::TrainingLoop loop(trainer, data, 0);
    loop.observe(listener);
    if (sampled) loop.observe(samples);
    loop.run(5);
    loop.end();
    loop.end();  // there is one text of these weights
    EXPECT_EQ(made.size(), sampled ? 3u : 0u);
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].step, (std::vector<int64_t>{2, 4, 5})[i]);
      EXPECT_EQ(made[i].fault, "");
      EXPECT_LE(made[i].ids.size(), 3u);
      EXPECT_FALSE(made[i].text.empty());
      EXPECT_FALSE(made[i].finish_reason.empty());
    }
    return losses;
  };
  EXPECT_EQ(losses_of(true), losses_of(false));  // bit for bit
}

TEST(TrainingSamples, RefuseWhatCannotBeGenerated) {
  const models::TokenizerFile file = tokenizer();
  SampleOptions options;
  EXPECT_THROW(TrainingSamples(options, machine(), nullptr, 48), Error);
  options.prompt = std::string(48, '!');
  EXPECT_THROW(TrainingSamples(options, machine(), &file, 48), Error);
  EXPECT_NO_THROW(TrainingSamples(options, machine(), &file, 49));
  options.tokens = 0;
  EXPECT_THROW(validate(options), Error);
  options.tokens = 1;
  validate(options);
  options.every = -1;
  EXPECT_THROW(validate(options), Error);
}

}  // namespace
}  // namespace ridge::measure
