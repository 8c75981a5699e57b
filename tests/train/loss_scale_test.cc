// SPDX-License-Identifier: Apache-2.0
// Training in fp16: it follows fp32, a step whose gradients overflow changes nothing but the scale,
// and small gradients survive only with a scale.
#include "train/loss_scale.h"

#include "files/scratch.h"
#include "ops/loss_scale.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

constexpr int kSteps = 20;
constexpr double kOverflowing = 0x1p24;  // gradients of the logits of 32 tokens exceed 65504

std::vector<float> bits_of(const runtime::Store& store, const std::string& name) {
  return store.read_floats(name);
}

// All parameters and moments in fp32.
std::map<std::string, std::vector<float>> state_of(const Trainer& trainer) {
  std::map<std::string, std::vector<float>> state;
  for (const std::string& name : trainer.store().names())
    if (trainer.store().type(name).dtype == DType::kF32 &&
        name.find("loss_scale") == std::string::npos && name != "learning_rate" && name != "step")
      state[name] = bits_of(trainer.store(), name);
  return state;
}

struct Session {
  Session(std::string_view level, StepOptions options, std::string_view switches = "+autocast_f16")
      : backend(cpu_backend(1)),
        trainer({small_config(), options, passes::Selection(level, switches)}, *backend),
        batch(synthetic_data(trainer).next(options.batch_size)) {}
  StepResult step() {
    return trainer.step(
        std::vector<Batch>(static_cast<size_t>(trainer.options().micro_batches), batch));
  }
  double scale() const { return trainer.loss_scale()->scale; }

  std::unique_ptr<backends::Backend> backend;
  Trainer trainer;
  Batch batch;
};

StepOptions scaled(double initial, int64_t interval = 2000) {
  StepOptions options = small_step();
  options.loss_scaling = {initial, interval};
  return options;
}

class LossScale : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, LossScale, every_level(), level_name<const char*>);

TEST_P(LossScale, LossesFollowFp32) {
  const std::vector<double> fp32 = train(small_config(), small_step(), "baseline", "", kSteps);
  const std::vector<double> fp16 =
      train(small_config(), small_step(), GetParam(), "+autocast_f16", kSteps);
  EXPECT_LE(largest_difference(fp32, fp16), 0.002);
  EXPECT_GT(largest_difference(fp32, fp16), 0) << "did not run in fp16";
}

TEST_P(LossScale, OverflowSkipsTheStepAndHalvesTheScale) {
  for (const double clip : {0.0, 1.0})
    for (const int64_t micro_batches : {1, 2}) {
      SCOPED_TRACE(fmt::format("clip {}, {} micro-batches", clip, micro_batches));
      StepOptions options = scaled(kOverflowing);
      options.optimizer.clip_norm = clip;
      options.micro_batches = micro_batches;
      Session run(GetParam(), options);
      const auto before = state_of(run.trainer);
      const StepResult first = run.step();
      EXPECT_TRUE(first.overflowed);
      EXPECT_TRUE(first.skipped);
      EXPECT_TRUE(std::isfinite(first.loss));
      EXPECT_EQ(first.gradient_norm, -1);
      EXPECT_EQ(first.loss_scale, kOverflowing / 2);
      EXPECT_EQ(state_of(run.trainer), before) << "bit by bit";
      int64_t skipped = 1;
      StepResult result;
      for (; (result = run.step()).overflowed; ++skipped) ASSERT_LT(skipped, 24);
      EXPECT_EQ(run.scale(), std::ldexp(kOverflowing, static_cast<int>(-skipped)));
      EXPECT_EQ(run.trainer.loss_scale()->skipped_steps, skipped);
      EXPECT_EQ(run.trainer.loss_scale()->good_steps, 1);
      EXPECT_NE(state_of(run.trainer), before);
      EXPECT_EQ(result.gradient_norm > 0, clip > 0);

      // The update is the first one: the same bits as without the skipped steps.
      options.loss_scaling.initial = run.scale();
      Session direct(GetParam(), options);
      EXPECT_FALSE(direct.step().overflowed);
      EXPECT_EQ(state_of(direct.trainer), state_of(run.trainer));
    }
}

TEST_P(LossScale, DoublesAfterGoodSteps) {
  Session run(GetParam(), scaled(256, 3));
  std::vector<double> scales;
  for (int i = 0; i < 7; ++i) scales.push_back(run.step().loss_scale);
  EXPECT_EQ(scales, (std::vector<double>{256, 256, 512, 512, 512, 1024, 1024}));
}

// The clipped norm is that of gradients without the scale.
TEST_P(LossScale, TheNormIsThatOfFp32) {
  StepOptions options = small_step();
  options.optimizer.clip_norm = 0.5;
  const double norm = Session("baseline", options, "").step().gradient_norm;
  EXPECT_NEAR(Session(GetParam(), options).step().gradient_norm, norm, 0.003 * norm);
}

// The gradients of one of 65536 micro-batches, whose loss counts that much less.
std::map<std::string, std::vector<float>> small_gradients(std::string_view level,
                                                          std::string_view switches,
                                                          double scale) {
  StepOptions options = scaled(scale);
  options.micro_batches = 65536;
  auto backend = cpu_backend(1);
  const TrainingStep step =
      build_step({small_config(), options, passes::Selection(level, switches)}, *backend);
  runtime::Store store(*backend);
  runtime::Program program(*backend, store);
  program.add("accumulate", step.graphs[0].graph);
  const Weights weights = lively_weights(small_config());
  runtime::load_parameters(
      step.load, [&](const std::string& name, const Type&) { return weights.at(name); }, store);
  program.bind();
  if (has_loss_scale(store)) store.write_scalar(kLossScale, static_cast<float>(scale));
  const Batch batch = SyntheticData(64, options.sequence, 3).next(options.batch_size);
  for (const auto& [name, values] :
       {std::pair{"ids", &batch.ids}, {"positions", &batch.positions}, {"labels", &batch.labels}})
    store.write(name, values->data(), static_cast<int64_t>(values->size() * sizeof(int32_t)));
  program.run(0);
  std::map<std::string, std::vector<float>> gradients;
  for (const std::string& name : store.names())
    if (name.ends_with(".gradient")) gradients[name] = store.read_floats(name);
  return gradients;
}

TEST_P(LossScale, SmallGradientsVanishWithoutIt) {
  const auto exact = small_gradients(GetParam(), "", 1);
  const auto lost = small_gradients(GetParam(), "+autocast_f16", 1);
  const auto kept = small_gradients(GetParam(), "+autocast_f16", 0x1p16);
  ASSERT_FALSE(exact.empty());
  int64_t elements = 0, zeros = 0, lost_zeros = 0, kept_zeros = 0;
  for (const auto& [name, values] : exact) {
    double squares = 0, error = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = static_cast<double>(values[i]);
      squares += want * want;
      error += std::pow(static_cast<double>(kept.at(name)[i]) / 0x1p16 - want, 2);
      ++elements;
      zeros += values[i] == 0;
      lost_zeros += lost.at(name)[i] == 0;
      kept_zeros += kept.at(name)[i] == 0;
    }
    EXPECT_LT(std::sqrt(error / squares), 0.01) << name;
  }
  EXPECT_GT(lost_zeros - zeros, elements / 20);
  EXPECT_LT(kept_zeros - zeros, elements / 100);
}

TEST(LossScaleOptions, AreChecked) {
  for (const double scale : {0.0, -2.0, 0.5, 3.0, 0x1p25, std::nan("")})
    EXPECT_THROW(check(LossScaling{scale, 1}), Error) << scale;
  EXPECT_THROW(check(LossScaling{2, 0}), Error);
  EXPECT_NO_THROW(check(LossScaling{1, 1}));
}

TEST(LossScaleOptions, TwoTypesAreRefused) {
  auto backend = cpu_backend(1);
  try {
    Trainer(
        {small_config(), small_step(), passes::Selection("fused", "+autocast_bf16,+autocast_f16")},
        *backend);
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("one of autocast_bf16 and autocast_f16"),
              std::string::npos);
  }
}

// No smaller scale would help. The trainer believes in a scale of 1; the store has one that
// overflows.
TEST(LossScaleOptions, AnOverflowAtTheLeastScaleIsAnError) {
  Session run("kernels", scaled(1));
  write_loss_scale(run.trainer.store(), {kOverflowing});
  try {
    run.step();
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_NE(std::string(error.what()).find("overflow fp16 with a loss scale of 1"),
              std::string::npos)
        << error.what();
  }
}

TEST(LossScaling, OptionsHaveBounds) {
  const auto refused = [](const LossScaling& options, const char* option) {
    files::expect_error([&] { check(options); }, ExitCode::kUsage, option);
  };
  constexpr int64_t kMostInterval = int64_t{1} << 24;
  for (const int64_t interval : {int64_t{1}, kMostInterval})
    EXPECT_NO_THROW(check({.growth_interval = interval})) << interval;
  for (const int64_t interval : {int64_t{0}, kMostInterval + 1})
    refused({.growth_interval = interval}, "[loss-scale-interval] expected 1 to 16777216");
  for (const double scale : {ops::kLeastLossScale, ops::kMostLossScale})
    EXPECT_NO_THROW(check({.initial = scale})) << scale;
  for (const double scale : {ops::kLeastLossScale / 2, ops::kMostLossScale * 2, 3.0, -65536.0, 0.0})
    refused({.initial = scale}, "[loss-scale] expected a power of two");
}

}  // namespace
}  // namespace ridge::train
