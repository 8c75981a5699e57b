// SPDX-License-Identifier: Apache-2.0
// A training says which checkpoints it finds, saves and resumes.
#include "train/training_checkpoints.h"

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "files/scratch.h"
#include "train/small_run.h"
#include "train/training_loop.h"
#include "train/validation.h"

namespace ridge::train {
namespace {

namespace fs = std::filesystem;

TEST(ObserverOptionsTest, BoundWhatIsCounted) {
  const auto refusal = [](int64_t validate_every, int64_t save_every, int64_t keep) {
    ObserverOptions options;
    options.validate_every = validate_every, options.save_every = save_every;
    options.policy.keep = keep;
    try {
      validate(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(100, 100, 3), "");
  EXPECT_EQ(refusal(1, 1, 1), "");
  EXPECT_EQ(refusal(0, 1, 1), "[val-every] expected at least 1, got 0");
  EXPECT_EQ(refusal(1, 0, 1), "[save-every] expected at least 1, got 0");
  EXPECT_EQ(refusal(1, 1, 0), "[keep] expected at least 1, got 0");
  EXPECT_EQ(refusal(1, 1, -2), "[keep] expected at least 1, got -2");
}

// A training on a file of ids, with checkpoints as its options name them.
class CheckpointedRun : public testing::Test {
 protected:
  CheckpointedRun() {
    std::vector<uint16_t> ids(2000);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(i * i % 61);
    files::write_plain(folder_ / "ids.bin",
                       {reinterpret_cast<const char*>(ids.data()), 2 * ids.size()});
    data_options_.data = {(folder_ / "ids.bin").string()};
    options_.checkpoints = (folder_ / "c").string();
    options_.save_every = 3;
    options_.policy.keep = 9;
  }
  // Finds a checkpoint, resumes and trains until a step.
  void run(int64_t end, double learning_rate = 0.0625, int64_t free_bytes = 0) {
    notes_.clear();
    TrainingSetup setup;
    setup.config = small_config();
    setup.step = small_step(learning_rate);
    setup.step.evaluates = true;
    TrainingData data(data_options_, 64, nullptr, {});
    data.make_batches(setup.step.sequence, {64}, setup.step.batch_size);
    Resumption resumption;
    resumption.settings = checkpoint_settings(setup, {"skip", "windows", ""}, data.identity());
    const CheckpointNote note = [this](const std::string& line) { notes_.push_back(line); };
    find_checkpoint(options_, setup.config, resumption, note);
    trainer_ = std::make_unique<Trainer>(setup, *backend_);
    add_model(nullptr, resumption);
    const std::vector<Batch> validated{data.batches().next(2)};
    data.batches().seek(0);
    Validation validation(*trainer_, validated, 2, resumption.first_step(),
                          [](const record::ValidationMetrics&) {});
    SpikeGuard guard(6);
    TrainingCheckpoints checkpoints(options_, resumption,
                                    {*trainer_, data, &guard, &validation, free_bytes}, note,
                                    {[this] { return is_asked_; }, [this] { is_asked_ = false; }});
    guard_losses_ = guard.losses().size();
    place_ = data.batches().place();
    StepListener listener([&](const StepEvent& event) {
      guard.is_spike(event.result.loss);
      is_asked_ = is_asked_ || event.index == asks_after_;
    });
    TrainingLoop loop(*trainer_, data.batches(), resumption.first_step());
    loop.observe(listener);
    loop.observe(validation);
    loop.observe(checkpoints.saver);
    loop.run(end);
    loop.end();
  }
  std::string path(int64_t step) const {
    return (folder_ / "c" / fmt::format("step-{:08}", step)).string();
  }
  nlohmann::json state(int64_t step) const {
    return nlohmann::json::parse(files::contents(path(step) + "/state.json"));
  }
  std::vector<int64_t> saved() const {
    std::vector<int64_t> steps;
    for (int64_t step = 0; step < 20; ++step)
      if (fs::exists(path(step))) steps.push_back(step);
    return steps;
  }

  files::ScratchFolder folder_;
  std::unique_ptr<backends::Backend> backend_ = cpu_backend(1);
  TrainingDataOptions data_options_;
  ObserverOptions options_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<std::string> notes_;
  bool is_asked_ = false;
  int64_t asks_after_ = -1;
  size_t guard_losses_ = 0;
  int64_t place_ = 0;
};

TEST_F(CheckpointedRun, SavesAsOftenAsTheOptionsSay) {
  run(7);
  EXPECT_EQ(saved(), (std::vector<int64_t>{3, 6, 7}));
  EXPECT_TRUE(notes_.empty());
  EXPECT_EQ(state(6).at("windows"), 12);
  EXPECT_EQ(state(6).at("tokens"), 12 * 16);
  EXPECT_EQ(state(6).at("guard").size(), 6u);
  EXPECT_TRUE(state(6).at("validation_loss").is_number());
  EXPECT_TRUE(state(3).at("validation_loss").is_null()) << "it is validated after each second";
  EXPECT_EQ(state(7).at("settings").at("lr"), 0.0625);
}

TEST_F(CheckpointedRun, SavesOnRequest) {
  options_.save_every = 100;
  asks_after_ = 1;
  run(6);
  EXPECT_EQ(saved(), (std::vector<int64_t>{2, 6})) << "the validation ended step 1";
  EXPECT_FALSE(is_asked_);
}

TEST_F(CheckpointedRun, KeepsAsManyAsThePolicySays) {
  options_.policy.keep = 2;
  run(10, 0.0625, 1);
  EXPECT_EQ(saved(), (std::vector<int64_t>{9, 10}));
}

TEST_F(CheckpointedRun, ResumesAndSaysWhatHasChanged) {
  run(4);
  options_.resume = true;
  run(8, 0.03125);
  EXPECT_EQ(notes_, (std::vector<std::string>{"note: lr was 0.0625 and is 0.03125",
                                              "Resuming after step 4 from " + path(4) + "."}));
  EXPECT_EQ(guard_losses_, 4u);
  EXPECT_EQ(place_, 8);
  EXPECT_EQ(trainer_->steps(), 8);
  EXPECT_EQ(saved(), (std::vector<int64_t>{3, 4, 6, 8}));
  EXPECT_EQ(state(8).at("tokens"), 16 * 16);
}

TEST_F(CheckpointedRun, SaysThatThereIsNoneYet) {
  options_.resume = true;
  run(1);
  EXPECT_EQ(notes_, (std::vector<std::string>{"There is no checkpoint in " + options_.checkpoints +
                                              " yet; training begins at step 0."}));
  EXPECT_EQ(saved(), std::vector<int64_t>{1});
}

TEST_F(CheckpointedRun, DoesNotMixTwoTrainings) {
  run(1);
  const std::string reason =
      fmt::format("[checkpoints] {} has checkpoints; --resume goes on after the newest",
                  printable(options_.checkpoints));
  files::expect_error([&] { run(2); }, ExitCode::kUsage, reason);
  fs::remove(path(1) + "/manifest.json");
  files::expect_error([&] { run(2); }, ExitCode::kUsage, reason);
}

TEST_F(CheckpointedRun, SaysWhichItRefuses) {
  run(4);
  fs::resize_file(path(4) + "/model.safetensors", 100);
  options_.resume = true;
  run(4);
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_TRUE(notes_[0].starts_with("Refused " + path(4) + ": [" + path(4))) << notes_[0];
  EXPECT_EQ(notes_[1], "Resuming after step 3 from " + path(3) + ".");
  EXPECT_EQ(saved(), (std::vector<int64_t>{3, 4}));
  for (const int64_t step : {3, 4}) fs::resize_file(path(step) + "/model.safetensors", 100);
  files::expect_error(
      [&] { run(4); }, ExitCode::kBadFile,
      fmt::format("[checkpoints] expected a whole checkpoint in {}, found none of 2",
                  options_.checkpoints));
  EXPECT_EQ(notes_.size(), 2u);
}

// The checkpoint of another model, and one of other trained parameters.
TEST_F(CheckpointedRun, RefusesAnotherTraining) {
  run(2);
  options_.resume = true;
  const auto find = [&](const models::ModelConfig& config, const char* freeze) {
    Resumption resumption;
    resumption.settings = {{"freeze", freeze}, {"lora", nullptr}};
    find_checkpoint(options_, config, resumption, [](const std::string&) {});
    return resumption.first_step();
  };
  EXPECT_EQ(find(small_config(), ""), 2);
  files::expect_error([&] { find(small_config(), "*norm*"); }, ExitCode::kBadFile,
                      "expected freeze \"*norm*\", as in this training, found \"\\\"\\\"\"");
  models::ModelConfig other = small_config();
  other.layers = 3;
  files::expect_error([&] { find(other, ""); }, ExitCode::kBadFile,
                      "/config.json] expected num_hidden_layers 3, as in this model, found");
  options_.checkpoints.clear();
  EXPECT_EQ(find(other, ""), 0) << "no folder, no checkpoint";
}

// The length for which a model is meant, and the ids of its tokenizer, may be others.
TEST_F(CheckpointedRun, GoesOnWithALongerContext) {
  run(2);
  options_.resume = true;
  models::ModelConfig longer = small_config();
  longer.context *= 2;
  Resumption resumption;
  resumption.settings = {{"freeze", ""}, {"lora", nullptr}};
  find_checkpoint(options_, longer, resumption, [](const std::string&) {});
  EXPECT_EQ(resumption.first_step(), 2);
}

// Adapters go on with the weights beside which they were trained.
class ResumedAdapters : public testing::Test {
 protected:
  static nlohmann::ordered_json with_weights(const nlohmann::ordered_json& model) {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    settings["model"] = model;
    return settings;
  }
  // Saves adapters of the one model and resumes with the other; the error, or nothing.
  std::string resumed(const nlohmann::ordered_json& before,
                      const nlohmann::ordered_json& now,
                      const char* switches = "+lora") {
    const auto backend = cpu_backend(1);
    Trainer trainer({small_config(), small_step(), passes::Selection("baseline", switches)},
                    *backend);
    TrainingState state;
    state.step = 3, state.windows = 5, state.tokens = 80;
    state.settings = before;
    CheckpointWriter writer(folder_ / "c", {}, nullptr);
    writer.save(trainer, state, 0);
    writer.wait();
    std::vector<RefusedCheckpoint> refused;
    Resumption resumption;
    resumption.settings = now;
    resumption.found = newest_checkpoint(folder_ / "c", refused);
    std::vector<WeightedData> data;
    data.push_back({text::TokenSet::of_ids(std::vector<int32_t>(99), 64, "zeros"), 1});
    TokenBatches batches(std::move(data), 16, {64}, 1);
    try {
      const DataPlace place = resume(resumption, trainer, batches, nullptr);
      EXPECT_EQ(place.windows, 5);
      EXPECT_EQ(place.tokens, 80);
      EXPECT_EQ(batches.place(), 5);
      EXPECT_EQ(trainer.steps(), 3);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadFile);
      return error.what();
    }
    return "";
  }
  std::string expected(const std::string& now, const std::string& before) const {
    return fmt::format(
        "[{}] expected adapters of a model whose weights have the hash {}, as those of --model, "
        "found {}",
        (folder_ / "c/step-00000003").string(), now, printable(before));
  }

  files::ScratchFolder folder_;
};

TEST_F(ResumedAdapters, NeedTheSameWeights) {
  const nlohmann::ordered_json a = {{"path", "x"}, {"weights", "1"}},
                               b = {{"path", "x"}, {"weights", "2"}},
                               moved = {{"path", "y"}, {"weights", "1"}};
  EXPECT_EQ(resumed(with_weights(a), with_weights(a)), "");
  EXPECT_EQ(resumed(with_weights(a), with_weights(moved)), "");
  EXPECT_EQ(resumed(with_weights(a), with_weights(b)), expected("\"2\"", "\"1\""));
  EXPECT_EQ(resumed(with_weights(a), with_weights(nullptr)), expected("null", "\"1\""));
  EXPECT_EQ(resumed(with_weights(nullptr), with_weights(b)), expected("\"2\"", "null"));
}

TEST_F(ResumedAdapters, MayBeOfAModelThatIsDrawn) {
  EXPECT_EQ(resumed(with_weights(nullptr), with_weights(nullptr)), "");
  EXPECT_EQ(resumed(nlohmann::ordered_json::object(), with_weights(nullptr)), "");
  EXPECT_EQ(resumed(with_weights({{"path", "x"}}), with_weights({{"path", "y"}})), "");
}

// Whole weights are in the checkpoint itself.
TEST_F(ResumedAdapters, AreTheOnlyOnesThatNeedABase) {
  EXPECT_EQ(resumed(with_weights({{"weights", "1"}}), with_weights({{"weights", "2"}}), ""), "");
}

// An observer that counts its calls.
class CountingObserver : public Observer {
 public:
  explicit CountingObserver(int64_t due) : due_(due) {}
  bool is_due(int64_t next) override { return next == due_; }
  void work(int64_t steps) override { worked_.push_back(steps); }
  const std::vector<int64_t>& worked() const { return worked_; }

 private:
  int64_t due_;
  std::vector<int64_t> worked_;
};

TEST(ObserverTest, WorksWhenItIsDue) {
  CountingObserver observer(3);
  for (int64_t next = 0; next < 6; ++next) observer.at_boundary(next);
  EXPECT_EQ(observer.worked(), std::vector<int64_t>{3});
}

// One that overrides nothing has no work and skips nothing.
TEST(ObserverTest, DoesNothingByItself) {
  Observer observer;
  EXPECT_FALSE(observer.is_due(0));
  EXPECT_FALSE(observer.skips_update(1e30));
  observer.work(0);
  observer.at_boundary(0);
  observer.before_step(0, true);
  const StepResult result;
  observer.after_step({0, true, result});
  observer.end(0);
}

TEST(ObserverTest, ListensToEachStep) {
  std::vector<std::pair<int64_t, double>> heard;
  StepListener listener([&](const StepEvent& event) {
    heard.emplace_back(event.index, event.result.loss);
    EXPECT_TRUE(event.instrumented);
  });
  StepResult result;
  result.loss = 2.5;
  listener.after_step({-1, true, result});
  EXPECT_EQ(heard, (std::vector<std::pair<int64_t, double>>{{-1, 2.5}}));
}

TEST(ObserverTest, InspectsTheLastStepAndEachSoMany) {
  const auto backend = cpu_backend(1);
  Trainer trainer({small_config(), small_step(), passes::Selection("baseline", "")}, *backend);
  const auto due = [&](int64_t every, int64_t steps) {
    NumericsInspection inspection(trainer, every, steps);
    std::vector<int64_t> inspected;
    for (int64_t next = -6; next < 10; ++next)
      if (inspection.is_due(next)) inspected.push_back(next);
    return inspected;
  };
  EXPECT_EQ(due(0, 4), std::vector<int64_t>{3});
  EXPECT_EQ(due(3, 5), (std::vector<int64_t>{2, 4, 5, 8}));
  EXPECT_EQ(due(1, 1).size(), 10u);
  EXPECT_EQ(due(0, 0), std::vector<int64_t>{}) << "no step, and none of the warm-up";
  NumericsInspection inspection(trainer, 0, 1);
  EXPECT_FALSE(trainer.inspects_next());
  inspection.at_boundary(1);
  EXPECT_FALSE(trainer.inspects_next());
  inspection.at_boundary(0);
  EXPECT_TRUE(trainer.inspects_next());
}

}  // namespace
}  // namespace ridge::train
