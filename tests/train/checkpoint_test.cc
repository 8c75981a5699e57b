// SPDX-License-Identifier: Apache-2.0
// Checkpoints restore training bit by bit, damaged ones are passed over, and old ones go.
#include "train/checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "files/json.h"
#include "files/manifest.h"
#include "files/scratch.h"
#include "train/optimizer.h"
#include "train/saved_state.h"
#include "train/small_run.h"
#include "train/token_batches.h"

namespace ridge::train {
namespace {

TokenBatches some_batches() {
  std::vector<int32_t> ids(2000);
  Random random(5);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(64));
  std::vector<WeightedData> data;
  data.push_back({text::TokenSet::of_ids(std::move(ids), 64, "random"), 1});
  return {std::move(data), 16, 64, 3};
}

// A trainer with its data.
struct Session {
  explicit Session(const std::string& level,
                   const std::string& switches = "",
                   int64_t micro_batches = 1)
      : backend(cpu_backend(1)) {
    StepOptions options = small_step(kLearningByHeart);
    options.micro_batches = micro_batches;
    options.evaluates = true;
    trainer = std::make_unique<Trainer>(
        StepSetup{small_config(), options, passes::Selection(level, switches)}, *backend);
  }
  std::vector<double> train(int64_t until) {
    std::vector<double> losses;
    run_loop(*trainer, batches, trainer->steps(), until,
             [&](int64_t, const StepResult& result) { losses.push_back(result.loss); });
    return losses;
  }
  void save(const std::filesystem::path& folder, const CheckpointPolicy& policy = {}) {
    TrainingState state;
    state.step = trainer->steps();
    state.windows = batches.place();
    state.settings = {{"a", 1}};
    CheckpointWriter writer(folder, policy, nullptr);
    writer.save(*trainer, state, 0);
    // Training goes on while the checkpoint is written.
    train(trainer->steps() + 2);
    writer.wait();
  }
  void resume(const std::filesystem::path& folder) {
    std::vector<RefusedCheckpoint> refused;
    const auto found = newest_checkpoint(folder, refused);
    ASSERT_TRUE(found);
    expect_same_model(*found, trainer->config());
    restore(*found, *trainer);
    batches.seek(found->state.windows);
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (const char* suffix : {"", kFirstMoment, kSecondMoment})
      for (const SavedTensor& each : saved_tensors(*trainer, suffix))
        all.insert(all.end(), each.values.begin(), each.values.end());
    return all;
  }

  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<Trainer> trainer;
  TokenBatches batches = some_batches();
};

using Form = std::tuple<const char*, const char*, int>;
class CheckpointTest : public testing::TestWithParam<Form> {};

TEST_P(CheckpointTest, AResumedRunIsBitwiseTheUnbrokenOne) {
  const auto [level, switches, micro_batches] = GetParam();
  const files::ScratchFolder folder;
  Session whole(level, switches, micro_batches), first(level, switches, micro_batches),
      second(level, switches, micro_batches);
  const std::vector<double> losses = whole.train(9);
  first.train(4);
  first.save(folder / "checkpoints");
  second.train(1);  // its state is replaced
  second.resume(folder / "checkpoints");
  EXPECT_EQ(second.train(9), std::vector<double>(losses.begin() + 4, losses.end()));
  EXPECT_EQ(second.weights(), whole.weights());
}

INSTANTIATE_TEST_SUITE_P(Forms,
                         CheckpointTest,
                         testing::Values(Form{"baseline", "", 1},
                                         Form{"fused", "", 1},
                                         Form{"kernels", "", 2},
                                         Form{"compiled", "-tune_gemm", 1},
                                         Form{"baseline", "+lora", 1},
                                         Form{"compiled", "-tune_gemm,+lora", 2},
                                         Form{"compiled", "-tune_gemm,+autocast_bf16", 1},
                                         Form{"compiled", "-tune_gemm,+autocast_bf16", 2},
                                         Form{"compiled", "-tune_gemm,+autocast_f16", 1},
                                         Form{"baseline", "+autocast_f16", 2}));

TEST(Checkpoint, AnotherLevelGoesOnFromIt) {
  const files::ScratchFolder folder;
  Session whole("baseline"), first("baseline"), second("compiled", "-tune_gemm");
  const std::vector<double> losses = whole.train(8);
  first.train(4);
  first.save(folder / "checkpoints");
  second.resume(folder / "checkpoints");
  EXPECT_LT(largest_difference(second.train(8), {losses.begin() + 4, losses.end()}), 1e-5);
}

TEST(Checkpoint, AnotherModelIsRefused) {
  const files::ScratchFolder folder;
  Session run("baseline");
  run.save(folder / "checkpoints");
  std::vector<RefusedCheckpoint> refused;
  const auto found = newest_checkpoint(folder / "checkpoints", refused);
  models::ModelConfig config = small_config();
  config.vocabulary = 65;
  files::expect_error([&] { expect_same_model(*found, config); }, ExitCode::kBadFile,
                      "expected vocab_size 65, as in this model, found");
}

TEST(Checkpoint, ADamagedOneIsPassedOver) {
  const files::ScratchFolder folder;
  Session run("baseline");
  for (int i = 0; i < 3; ++i) run.save(folder / "c");  // after steps 0, 2 and 4
  std::vector<RefusedCheckpoint> none;
  EXPECT_FALSE(newest_checkpoint(folder / "missing", none));
  const auto expect = [&](int64_t step, size_t refused_count, const std::string& reason) {
    std::vector<RefusedCheckpoint> refused;
    const auto found = newest_checkpoint(folder / "c", refused);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->state.step, step);
    ASSERT_EQ(refused.size(), refused_count);
    EXPECT_TRUE(refused.empty() || refused[0].reason.find(reason) != std::string::npos);
  };
  expect(4, 0, "");
  std::string bytes = files::contents(folder / "c/step-00000004/moments.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  files::write_plain(folder / "c/step-00000004/moments.safetensors", bytes);
  expect(2, 1, "moments.safetensors] expected the hash");
  std::filesystem::resize_file(folder / "c/step-00000004/model.safetensors", 100);
  expect(2, 1, "model.safetensors] expected");
  std::filesystem::remove(folder / "c/step-00000002/manifest.json");
  expect(0, 2, "");
  std::filesystem::remove_all(folder / "c/step-00000000");
  std::vector<RefusedCheckpoint> refused;
  EXPECT_FALSE(newest_checkpoint(folder / "c", refused));
  EXPECT_EQ(refused.size(), 2u);
}

// A checkpoint after step 0 whose state is changed, and whose hashes agree with it.
class ChangedState {
 public:
  ChangedState() {
    Session run("baseline");
    run.save(folder_ / "c");
    state_ = nlohmann::json::parse(files::contents(made_ / "state.json"));
    manifest_ = nlohmann::json::parse(files::contents(made_ / files::kManifest));
  }

  // The checkpoint with the patch, or nothing and the reasons.
  auto found(const char* patch, std::vector<RefusedCheckpoint>& refused) const {
    nlohmann::json changed = state_;
    changed.merge_patch(nlohmann::json::parse(patch));
    files::write_plain(made_ / "state.json", changed.dump());
    std::filesystem::remove(made_ / files::kManifest);
    files::write_manifest(made_, manifest_["format"].get<std::string>().c_str());
    return newest_checkpoint(folder_ / "c", refused);
  }

 private:
  const files::ScratchFolder folder_;
  const std::filesystem::path made_ = folder_ / "c/step-00000000";
  nlohmann::json state_, manifest_;
};

// The scale of losses begins with no step counted.
TEST(Checkpoint, AStateAtItsBoundsIsRead) {
  const ChangedState changed;
  std::vector<RefusedCheckpoint> refused;
  const auto found = changed.found(
      R"({"loss_scale": {"scale": 65536, "good_steps": 0, "skipped_steps": 0},
          "settings": {"seq_len": 1}, "validation_loss": 0.5, "guard": [1, 2.5]})",
      refused);
  ASSERT_TRUE(found) << refused.at(0).reason;
  const TrainingState& state = found->state;
  ASSERT_TRUE(state.loss_scale);
  EXPECT_EQ(state.loss_scale->scale, 65536);
  EXPECT_EQ(state.loss_scale->good_steps, 0);
  EXPECT_EQ(state.loss_scale->skipped_steps, 0);
  EXPECT_EQ(state.validation_loss, 0.5);
  EXPECT_EQ(state.guard, (std::vector<double>{1, 2.5}));
}

// The hashes agree, but no training wrote such a state.
TEST(Checkpoint, AStateThatNoTrainingWritesIsRefused) {
  const ChangedState changed;
  const auto expect = [&](const char* patch, const char* reason) {
    std::vector<RefusedCheckpoint> refused;
    EXPECT_FALSE(changed.found(patch, refused)) << patch;
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_NE(refused[0].reason.find(reason), std::string::npos) << refused[0].reason;
  };
  const auto expect_scale = [&](const char* scale, const char* good, const char* skipped,
                                const char* reason) {
    expect(
        fmt::format(R"({{"loss_scale": {{"scale": {}, "good_steps": {}, "skipped_steps": {}}}}})",
                    scale, good, skipped)
            .c_str(),
        reason);
  };
  expect_scale("3", "0", "0", "expected a loss scale, found 3");
  expect_scale("0", "0", "0", "expected a loss scale, found 0");
  expect_scale("65536", "-1", "0", "good_steps");
  expect_scale("65536", "0", "-1", "skipped_steps");
  expect_scale("65536", "0.5", "0", "good_steps");
  expect(R"({"settings": []})", "settings");
  expect(R"({"settings": {"seq_len": "long"}})", "seq_len");
  expect(R"({"settings": {"seq_len": 0}})", "seq_len");
  expect(R"({"windows": 9000000000000000000})", "windows");
  expect(R"({"windows": -1})", "windows");
  expect(R"({"step": 9223372036854775807})", "step");
  expect(R"({"tokens": 9223372036854775807})", "tokens");
  // The guard keeps a hundred losses; a million would take seconds and a GiB.
  const nlohmann::json losses = std::vector<double>(101, 1.0);
  expect(("{\"guard\": " + losses.dump() + "}").c_str(), "at most 100 losses");
}

// One step further on, the only good checkpoint is the one just written.
TEST(Checkpoint, ADamagedLaterOneDoesNotTakeThePlaceOfANewOne) {
  const files::ScratchFolder folder;
  Session run("baseline");
  run.save(folder / "c", {.keep = 1});  // after step 0
  Session ahead("baseline");
  ahead.train(9);
  ahead.save(folder / "c", {.keep = 5});
  std::filesystem::resize_file(folder / "c/step-00000009/model.safetensors", 100);
  run.save(folder / "c", {.keep = 1});  // after step 2
  std::vector<RefusedCheckpoint> refused;
  const auto found = newest_checkpoint(folder / "c", refused);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state.step, 2);
  EXPECT_EQ(refused.size(), 1u);
}

TEST(Checkpoint, APlaceWhereNothingCanBeWrittenIsAnError) {
  const files::ScratchFolder folder;
  files::write_plain(folder / "file", "x");
  files::expect_error([&] { CheckpointWriter(folder / "file", {}, nullptr); }, ExitCode::kRuntime,
                      "file");
}

TEST(Checkpoint, OldOnesGoAndTheBestStays) {
  using Known = std::vector<std::pair<int64_t, std::optional<double>>>;
  const Known known{{10, 3.0}, {20, 2.0}, {30, 2.5}, {40, std::nullopt}, {50, 2.2}};
  EXPECT_EQ(superseded(known, {.keep = 2, .keep_best = false}), (std::vector<int64_t>{30, 20, 10}));
  EXPECT_EQ(superseded(known, {.keep = 2, .keep_best = true}), (std::vector<int64_t>{30, 10}));
  EXPECT_EQ(superseded(known, {.keep = 9, .keep_best = true}), std::vector<int64_t>{});
  EXPECT_EQ(superseded({{1, std::nullopt}, {2, std::nullopt}}, {.keep = 1, .keep_best = true}),
            std::vector<int64_t>{1});
  const files::ScratchFolder folder;
  Session run("baseline");
  for (int i = 0; i < 4; ++i) run.save(folder / "c", {.keep = 2, .keep_best = true});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "c"), {}), 2);
}

class EvaluationTest : public testing::TestWithParam<const char*> {};

TEST_P(EvaluationTest, IsTheLossOfTheNextStepAndChangesNothing) {
  Session run(GetParam(), std::string(GetParam()) == "compiled" ? "-tune_gemm" : "");
  run.train(3);
  const int64_t place = run.batches.place();
  const std::vector<Batch> batches{run.batches.next(2)};
  const double evaluated = run.trainer->evaluate(batches);
  EXPECT_EQ(run.trainer->evaluate(batches), evaluated);
  const double next = run.trainer->step(batches).loss;
  EXPECT_NEAR(evaluated, next, 1e-6);
  // Batches count by their labels: a batch of which half is left out counts half.
  std::vector<Batch> two{run.batches.next(2), run.batches.next(2)};
  std::fill(two[1].labels.begin() + 16, two[1].labels.end(), -1);
  const double both = run.trainer->evaluate(two);
  const double first = run.trainer->evaluate({&two[0], 1}),
               second = run.trainer->evaluate({&two[1], 1});
  EXPECT_NEAR(both, (2 * first + second) / 3, 1e-12);
  run.batches.seek(place);
}

INSTANTIATE_TEST_SUITE_P(Levels, EvaluationTest, every_level());

}  // namespace
}  // namespace ridge::train
