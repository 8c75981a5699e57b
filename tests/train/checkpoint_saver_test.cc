// SPDX-License-Identifier: Apache-2.0
// A training saves checkpoints on its way and goes on from them, with settings that it compares.
#include "train/checkpoint_saver.h"

#include <nlohmann/json.hpp>

#include "files/json.h"
#include "files/scratch.h"
#include "train/small_run.h"
#include "train/training_checkpoints.h"
#include "train/training_loop.h"

namespace ridge::train {
namespace {

TokenBatches some_batches(int64_t sequence) {
  std::vector<int32_t> ids(2000);
  Random random(5);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(64));
  std::vector<WeightedData> data;
  data.push_back({text::TokenSet::of_ids(std::move(ids), 64, "random"), 1});
  return {std::move(data), sequence, 64, 3};
}

// A training with a guard and checkpoints.
struct SavingRun {
  explicit SavingRun(const std::filesystem::path& where, int64_t sequence = 16)
      : folder(where), backend(cpu_backend(1)), batches(some_batches(sequence)) {
    TrainingSetup setup;
    setup.config = small_config();
    setup.step = small_step(kLearningByHeart);
    setup.step.sequence = sequence;
    trainer = std::make_unique<Trainer>(setup, *backend);
    resumption.settings = checkpoint_settings(setup, {"skip", "windows", ""}, {{"seed", 3}});
    add_model(nullptr, resumption);
  }
  void find() {
    std::vector<RefusedCheckpoint> refused;
    resumption.found = newest_checkpoint(folder, refused);
    ASSERT_TRUE(resumption.found);
  }
  std::vector<double> train(int64_t every, int64_t end) {
    std::vector<double> losses;
    const DataPlace begin = resume(resumption, *trainer, batches, &guard);
    CheckpointWriter writer(folder, {.keep = 9}, nullptr);
    CheckpointSaver saver(*trainer, {batches, begin, &guard, nullptr, resumption.settings}, writer,
                          {every,
                           resumption.found ? std::optional(resumption.first_step()) : std::nullopt,
                           {[this] { return is_asked; }, [this] { is_asked = false; }},
                           0});
    StepListener listener([&](const StepEvent& event) {
      losses.push_back(event.result.loss);
      guard.is_spike(event.result.loss);
      is_asked = is_asked || event.index == asks_after;
    });
    TrainingLoop loop(*trainer, batches, resumption.first_step());
    loop.observe(listener);
    loop.observe(saver);
    loop.run(end);
    loop.end();
    return losses;
  }
  std::vector<int64_t> saved() const {
    std::vector<int64_t> steps;
    for (int64_t step = 0; step < 100; ++step)
      if (std::filesystem::exists(folder / fmt::format("step-{:08}", step))) steps.push_back(step);
    return steps;
  }

  std::filesystem::path folder;
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<Trainer> trainer;
  TokenBatches batches;
  Resumption resumption;
  SpikeGuard guard{6};
  bool is_asked = false;
  int64_t asks_after = -1;
};

TEST(CheckpointSaver, SavesOnItsWayOnRequestAndAtTheEnd) {
  const files::ScratchFolder folder;
  SavingRun run(folder / "c");
  run.asks_after = 1;
  run.train(5, 8);
  EXPECT_FALSE(run.is_asked);
  // Step 2 has begun when the request comes.
  EXPECT_EQ(run.saved(), (std::vector<int64_t>{3, 5, 8}));
  run.find();
  const TrainingState& state = run.resumption.found->state;
  EXPECT_EQ(state.step, 8);
  EXPECT_EQ(state.windows, 16);
  EXPECT_EQ(state.tokens, 16 * 16);
  EXPECT_EQ(state.guard.size(), 8u);
  EXPECT_FALSE(state.validation_loss);
}

TEST(CheckpointSaver, AResumedRunGoesOnBitByBit) {
  const files::ScratchFolder folder;
  SavingRun whole(folder / "whole"), first(folder / "c"), second(folder / "c");
  const std::vector<double> losses = whole.train(100, 9);
  first.train(100, 4);
  second.find();
  EXPECT_EQ(second.train(3, 9), std::vector<double>(losses.begin() + 4, losses.end()));
  EXPECT_EQ(second.saved(), (std::vector<int64_t>{4, 6, 9}));
  EXPECT_EQ(second.guard.losses(), whole.guard.losses());
  EXPECT_TRUE(changed_settings(second.resumption).empty());
  second.find();
  EXPECT_EQ(second.resumption.found->state.tokens, 9 * 2 * 16);  // the sum of both runs
}

TEST(CheckpointSaver, ADoneTrainingSavesNothing) {
  const files::ScratchFolder folder;
  SavingRun first(folder / "c"), second(folder / "c");
  first.train(100, 4);
  const auto written = std::filesystem::last_write_time(folder / "c/step-00000004/state.json");
  second.find();
  EXPECT_TRUE(second.train(1, 4).empty());
  EXPECT_EQ(std::filesystem::last_write_time(folder / "c/step-00000004/state.json"), written);
}

// A checkpoint is told of where the training resumes; before, only its absence is.
TEST(FindCheckpoint, SaysWhetherThereIsOne) {
  const files::ScratchFolder folder;
  SavingRun first(folder / "c"), second(folder / "c");
  ObserverOptions options;
  options.checkpoints = (folder / "c").string();
  std::vector<std::string> notes;
  const auto find = [&](bool resumes) {
    options.resume = resumes;
    notes.clear();
    find_checkpoint(options, small_config(), second.resumption,
                    [&](const std::string& line) { notes.push_back(line); });
    return second.resumption.found.has_value();
  };
  EXPECT_FALSE(find(false));
  EXPECT_TRUE(notes.empty());
  EXPECT_FALSE(find(true));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].find("There is no checkpoint in"), 0u) << notes[0];
  first.train(100, 2);
  EXPECT_TRUE(find(true));
  EXPECT_TRUE(notes.empty()) << notes[0];
  EXPECT_EQ(second.resumption.first_step(), 2);
  files::expect_error([&] { find(false); }, ExitCode::kUsage, "--resume goes on after the newest");
}

TEST(Resume, WindowsOfAnotherLengthBeginAtTheSameToken) {
  const files::ScratchFolder folder;
  SavingRun first(folder / "c"), second(folder / "c", 8);
  first.train(100, 4);
  second.find();
  const DataPlace place = resume(second.resumption, *second.trainer, second.batches, nullptr);
  EXPECT_EQ(place.windows, 16);  // after 8 of 16 tokens
  EXPECT_EQ(place.tokens, 8 * 16);
  EXPECT_EQ(second.batches.place(), 16);
  const std::vector<SettingChange> changes = changed_settings(second.resumption);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].name, "seq_len");
  EXPECT_EQ(changes[0].before, "16");
  EXPECT_EQ(changes[0].now, "8");
}

TEST(Resume, OtherTrainedParametersAreRefused) {
  const files::ScratchFolder folder;
  SavingRun first(folder / "c"), second(folder / "c");
  first.train(100, 2);
  second.find();
  expect_same_tuning(second.resumption);
  second.resumption.settings["freeze"] = "*norm*";
  files::expect_error([&] { expect_same_tuning(second.resumption); }, ExitCode::kBadFile,
                      "expected freeze \"*norm*\", as in this training, found");
  // A checkpoint from before there were such settings has none.
  second.resumption.settings["freeze"] = "";
  second.resumption.found->state.settings.erase("freeze");
  second.resumption.found->state.settings.erase("lora");
  expect_same_tuning(second.resumption);
}

TEST(Resume, SettingsAreThoseOfTheStep) {
  TrainingSetup setup;
  setup.config = small_config();
  setup.step.micro_batches = 3;
  setup.step.optimizer.decays_all = true;
  setup.selection = passes::Selection("baseline", "+lora");
  setup.step.lora = {.rank = 4, .alpha = 8, .targets = {"q_proj"}};
  const auto settings = checkpoint_settings(setup, {"off", "documents", ""}, nullptr);
  EXPECT_EQ(settings["micro_batches"], 3);
  EXPECT_EQ(settings["decay"], "all");
  EXPECT_EQ(settings["pack"], "documents");
  EXPECT_EQ(settings["lora"]["rank"], 4);
  EXPECT_TRUE(settings["loss_scale_interval"].is_null());
  setup.selection = passes::Selection("baseline", "+autocast_f16");
  setup.step.loss_scaling.growth_interval = 7;
  const auto scaled = checkpoint_settings(setup, {"off", "windows", ""}, nullptr);
  EXPECT_TRUE(scaled["lora"].is_null());
  EXPECT_EQ(scaled["loss_scale_interval"], 7);
}

}  // namespace
}  // namespace ridge::train
