// SPDX-License-Identifier: Apache-2.0
// A checkpoint keeps more than weights, says whether a saved model stands in it, and is written
// when its options say so.
#include <nlohmann/json.hpp>

#include "files/json.h"
#include "files/manifest.h"
#include "files/safetensors.h"
#include "files/scratch.h"
#include "train/checkpoint.h"
#include "train/checkpoint_shards.h"
#include "train/optimizer.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

namespace fs = std::filesystem;

class CheckpointFiles : public testing::Test {
 protected:
  static std::unique_ptr<Trainer> trainer(backends::Backend& backend,
                                          const std::string& switches = "") {
    return std::make_unique<Trainer>(
        StepSetup{small_config(), small_step(), passes::Selection("baseline", switches)}, backend);
  }
  static TrainingState at(int64_t step, std::optional<double> loss = {}) {
    TrainingState state;
    state.step = step;
    state.validation_loss = loss;
    return state;
  }
  void save(const Trainer& from, const TrainingState& state, const CheckpointPolicy& policy = {}) {
    CheckpointWriter writer(folder_ / "c", policy, nullptr);
    writer.save(from, state, 0);
    writer.wait();
  }
  FoundCheckpoint found() const {
    std::vector<RefusedCheckpoint> refused;
    const auto newest = newest_checkpoint(folder_ / "c", refused);
    EXPECT_TRUE(newest) << (refused.empty() ? "none" : refused[0].reason);
    return newest.value_or(FoundCheckpoint{});
  }
  std::vector<std::string> names(const fs::path& in) const {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(in))
      names.push_back(each.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  files::ScratchFolder folder_;
  std::unique_ptr<backends::Backend> backend_ = cpu_backend(1);
  std::unique_ptr<Trainer> trainer_ = trainer(*backend_);
};

TEST_F(CheckpointFiles, HaveTheWholeState) {
  TrainingState state = at(7, 2.5);
  state.windows = 11, state.tokens = 13;
  state.guard = {3.5, 0.25};
  state.loss_scale = {1024, 3, 2};
  state.settings = {{"seq_len", 16}, {"b", "c"}};
  save(*trainer_, state);
  EXPECT_EQ(names(folder_ / "c"), std::vector<std::string>{"step-00000007"});
  EXPECT_EQ(names(folder_ / "c/step-00000007"),
            (std::vector<std::string>{"config.json", "manifest.json", "model.safetensors",
                                      "moments.safetensors", "state.json"}));
  const TrainingState read = found().state;
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.windows, 11);
  EXPECT_EQ(read.tokens, 13);
  EXPECT_EQ(read.validation_loss, 2.5);
  EXPECT_EQ(read.guard, (std::vector<double>{3.5, 0.25}));
  ASSERT_TRUE(read.loss_scale);
  EXPECT_EQ(read.loss_scale->scale, 1024);
  EXPECT_EQ(read.loss_scale->good_steps, 3);
  EXPECT_EQ(read.loss_scale->skipped_steps, 2);
  EXPECT_EQ(nlohmann::json(read.settings), nlohmann::json(state.settings));
  const auto document = nlohmann::json::parse(files::contents(found().path / "state.json"));
  EXPECT_EQ(document.size(), 7u);
  EXPECT_EQ(document.at("loss_scale").size(), 3u);
}

TEST_F(CheckpointFiles, SayNothingThatIsNotThere) {
  TrainingState state = at(0);
  state.settings = nlohmann::ordered_json::object();
  save(*trainer_, state);
  const auto document = nlohmann::json::parse(files::contents(found().path / "state.json"));
  EXPECT_TRUE(document.at("loss_scale").is_null());
  EXPECT_TRUE(document.at("validation_loss").is_null());
  EXPECT_TRUE(document.at("guard").is_null());
  const TrainingState read = found().state;
  EXPECT_FALSE(read.loss_scale);
  EXPECT_FALSE(read.validation_loss);
  EXPECT_TRUE(read.guard.is_null());
}

// PyTorch's names of the moments, which are those under our names.
TEST_F(CheckpointFiles, HaveMomentsUnderTheirNames) {
  losses(*trainer_, 2);
  TrainingState state = at(2);
  state.settings = nlohmann::ordered_json::object();
  save(*trainer_, state);
  const auto file = files::SafetensorsFile::open(found().path / "moments.safetensors");
  EXPECT_EQ(file.tensors().all().size(), 2u * 20);
  for (const auto& [ending, suffix] :
       {std::pair(".exp_avg", kFirstMoment), std::pair(".exp_avg_sq", kSecondMoment)}) {
    const std::string name = "model.layers.1.mlp.up_proj.weight";
    const files::FileTensor* tensor = file.tensors().find(name + ending);
    ASSERT_NE(tensor, nullptr) << ending;
    const std::vector<float> stored = trainer_->store().read_floats(name + suffix);
    EXPECT_TRUE(std::ranges::equal(tensor->bytes, files::bytes_of(stored))) << ending;
  }
}

// A trainer takes the scale of losses if it has one, and the steps that are done.
TEST_F(CheckpointFiles, RestoreTheScaleOfLosses) {
  TrainingState state = at(6);
  state.settings = nlohmann::ordered_json::object();
  const auto scaled = trainer(*backend_, "+autocast_f16");
  const LossScaleState before = *scaled->loss_scale();
  save(*trainer_, state);
  restore(found(), *scaled);
  EXPECT_EQ(scaled->loss_scale()->scale, before.scale);
  EXPECT_EQ(scaled->steps(), 6);
  state.loss_scale = {256, 5, 4};
  save(*trainer_, state);
  restore(found(), *scaled);
  EXPECT_EQ(scaled->loss_scale()->scale, 256);
  EXPECT_EQ(scaled->loss_scale()->good_steps, 5);
  EXPECT_EQ(scaled->loss_scale()->skipped_steps, 4);
  restore(found(), *trainer_);
  EXPECT_FALSE(trainer_->loss_scale());
  EXPECT_EQ(trainer_->steps(), 6);
}

TEST_F(CheckpointFiles, AreRefusedUnderTheNameOfAnotherStep) {
  TrainingState state = at(3);
  state.settings = nlohmann::ordered_json::object();
  save(*trainer_, state);
  fs::rename(folder_ / "c/step-00000003", folder_ / "c/step-00000004");
  std::vector<RefusedCheckpoint> refused;
  EXPECT_FALSE(newest_checkpoint(folder_ / "c", refused));
  ASSERT_EQ(refused.size(), 1u);
  const fs::path path = folder_ / "c/step-00000004";
  EXPECT_EQ(refused[0].path, path);
  EXPECT_EQ(refused[0].reason,
            fmt::format("[{}] expected step 4, found 3", (path / "state.json").string()));
}

// Only names that Ridge itself gives are those of checkpoints.
TEST_F(CheckpointFiles, HaveNamesOfEightDigits) {
  TrainingState state = at(3);
  state.settings = nlohmann::ordered_json::object();
  save(*trainer_, state);
  for (const char* name : {"step-4", "step-000000004", "step-0000004x", "step-", "Step-00000009"})
    fs::create_directory(folder_ / "c" / name);
  std::vector<RefusedCheckpoint> refused;
  EXPECT_EQ(newest_checkpoint(folder_ / "c", refused)->state.step, 3);
  EXPECT_TRUE(refused.empty());
  fs::create_directory(folder_ / "c/step-123456789");
  EXPECT_EQ(newest_checkpoint(folder_ / "c", refused)->state.step, 3);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].path.filename(), "step-123456789");
}

TEST_F(CheckpointFiles, ReplaceThoseOfTheSameStep) {
  TrainingState state = at(3);
  state.settings = nlohmann::ordered_json::object();
  save(*trainer_, state);
  fs::resize_file(folder_ / "c/step-00000003/model.safetensors", 100);
  files::write_plain(folder_ / "c/step-00000003/other", "x");
  state.tokens = 5;
  save(*trainer_, state);
  EXPECT_EQ(found().state.tokens, 5);
  EXPECT_FALSE(fs::exists(folder_ / "c/step-00000003/other"));
  EXPECT_EQ(names(folder_ / "c"), std::vector<std::string>{"step-00000003"});
}

// A damaged one has no loss by which it could be the best, but it counts as one of the newest.
TEST_F(CheckpointFiles, GoByTheirStepIfTheyAreDamaged) {
  const auto add = [&](int64_t step, double loss, const CheckpointPolicy& policy) {
    TrainingState state = at(step, loss);
    state.settings = nlohmann::ordered_json::object();
    save(*trainer_, state, policy);
    std::vector<std::string> left = names(folder_ / "c");
    return left;
  };
  add(1, 2, {.keep = 9});
  add(2, 1, {.keep = 9});
  files::write_plain(folder_ / "c/step-00000002/state.json", "{}");
  EXPECT_EQ(add(3, 3, {.keep = 2, .keep_best = true}),
            (std::vector<std::string>{"step-00000001", "step-00000002", "step-00000003"}));
  EXPECT_EQ(add(4, 4, {.keep = 1, .keep_best = true}),
            (std::vector<std::string>{"step-00000001", "step-00000004"}));
}

TEST_F(CheckpointFiles, NeedAFolder) {
  files::write_plain(folder_ / "file", "x");
  try {
    const CheckpointWriter writer(folder_ / "file", {}, nullptr);
    ADD_FAILURE() << "there is a file";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what())
                  .find(fmt::format("[{}] cannot make the folder: ", (folder_ / "file").string())),
              0u)
        << error.what();
  }
  const CheckpointWriter writer(folder_ / "a/b/c", {}, nullptr);
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b/c"));
  EXPECT_TRUE(fs::is_empty(folder_ / "a/b/c")) << "the probe is gone";
  EXPECT_EQ(writer.blocked_ns(), 0);
}

// A tokenizer that JSON cannot hold, so that writing fails after all has been copied.
class FailingCheckpoint : public CheckpointFiles {
 protected:
  FailingCheckpoint() {
    state_.settings = nlohmann::ordered_json::object();
    tokenizer_ = models::read_tokenizer(test_data("models/tokenizers/gpt2"));
    tokenizer_.spec.tokens[300] = "\xff";
  }
  // Whether save fails itself, and not the writing beside the training.
  bool fails_at_once(const Trainer& trainer, int64_t free_bytes) {
    CheckpointWriter writer(folder_ / "c", {}, &tokenizer_);
    try {
      writer.save(trainer, state_, free_bytes);
    } catch (const Error& error) {
      return true;
    }
    EXPECT_GT(writer.blocked_ns(), 0);
    EXPECT_THROW(writer.wait(), Error);
    writer.wait();  // it was told
    EXPECT_TRUE(fs::is_empty(folder_ / "c"));
    return false;
  }

  TrainingState state_;
  models::TokenizerFile tokenizer_;
};

// A copy has each parameter and both of its moments.
TEST_F(FailingCheckpoint, IsWrittenAtOnceIfThereIsNoRoomForACopy) {
  const int64_t all = 3 * 4 * small_config().parameters();
  EXPECT_FALSE(fails_at_once(*trainer_, 0)) << "unknown";
  EXPECT_FALSE(fails_at_once(*trainer_, all));
  EXPECT_TRUE(fails_at_once(*trainer_, all - 1));
  EXPECT_TRUE(fails_at_once(*trainer_, 1));
}

// The ranks and targets of small_step: q_proj and v_proj of two layers.
TEST_F(FailingCheckpoint, NeedsRoomForAdaptersAlone) {
  const auto adapted = trainer(*backend_, "+lora");
  const int64_t all = 3 * 4 * (2 * 8 * ((32 + 32) + (32 + 16)));
  EXPECT_FALSE(fails_at_once(*adapted, all));
  EXPECT_TRUE(fails_at_once(*adapted, all - 1));
}

TEST_F(FailingCheckpoint, NeedsRoomForFrozenWeightsOnce) {
  StepOptions options = small_step();
  options.frozen = {"*mlp*"};
  const Trainer frozen({small_config(), options, passes::Selection("baseline", "")}, *backend_);
  const int64_t mlp = 2 * 3 * 32 * 48, all = 4 * (3 * (small_config().parameters() - mlp) + mlp);
  EXPECT_FALSE(fails_at_once(frozen, all));
  EXPECT_TRUE(fails_at_once(frozen, all - 1));
}

// The next checkpoint is told of the one before.
TEST_F(FailingCheckpoint, FailsTheNextOne) {
  CheckpointWriter writer(folder_ / "c", {}, &tokenizer_);
  writer.expect_no_failure();
  writer.save(*trainer_, state_, 0);
  EXPECT_THROW(writer.save(*trainer_, state_, 0), Error);
}

// A model that a training saved, next to its checkpoints.
class SavedNextToCheckpoints : public CheckpointFiles {
 protected:
  SavedNextToCheckpoints() {
    TrainingState state = at(1);
    state.settings = nlohmann::ordered_json::object();
    save(*trainer_, state);
    save_model(*trainer_, model_);
    losses(*trainer_, 1);
    state.step = 2;
    save(*trainer_, state);
  }
  bool is_there() const { return is_in_a_checkpoint(model_, folder_ / "c"); }
  // The older checkpoint with its weights in two shards.
  void shard(const std::function<void(std::vector<SavedTensor>&)>& change = {}) const {
    const fs::path checkpoint = folder_ / "c/step-00000001";
    std::vector<SavedTensor> all = saved_tensors(*CheckpointFiles::trainer(*backend_));
    if (change) change(all);
    TensorOwners owners(2);
    std::vector<std::vector<SavedTensor>> parts(2);
    for (SavedTensor& each : all) {
      const auto owner = static_cast<size_t>(owners.of(each.name, each.shape.elements()));
      parts[owner].push_back(std::move(each));
    }
    for (int64_t rank = 0; rank < 2; ++rank)
      files::write_safetensors(checkpoint / owners.file("model", rank),
                               sources_of(parts[static_cast<size_t>(rank)]));
    files::write_plain(checkpoint / index_name("model"),
                       owners.index("model", std::vector<std::string_view>{""}));
    fs::remove(checkpoint / "model.safetensors");
  }

  fs::path model_ = folder_ / "model";
};

TEST_F(SavedNextToCheckpoints, IsInOneOfThem) {
  EXPECT_TRUE(is_there());
  EXPECT_FALSE(is_in_a_checkpoint(model_, folder_ / "missing"));
  EXPECT_FALSE(is_in_a_checkpoint(folder_ / "missing", folder_ / "c"));
  fs::create_directory(folder_ / "empty");
  EXPECT_FALSE(is_in_a_checkpoint(folder_ / "empty", folder_ / "c"));
  EXPECT_FALSE(is_in_a_checkpoint(model_ / "config.json", folder_ / "c"));
  fs::remove_all(folder_ / "c/step-00000001");
  EXPECT_FALSE(is_there()) << "the weights of another step";
}

TEST_F(SavedNextToCheckpoints, IsInNoneIfAFileDiffers) {
  const std::string config = files::contents(model_ / "config.json");
  std::string changed = config;
  changed[changed.size() / 2] ^= 1;
  files::write_plain(model_ / "config.json", changed);
  EXPECT_FALSE(is_there()) << "another byte";
  files::write_plain(model_ / "config.json", config + " ");
  EXPECT_FALSE(is_there()) << "another size";
  files::write_plain(model_ / "config.json", config);
  EXPECT_TRUE(is_there());
  files::write_plain(model_ / "notes.txt", "");
  EXPECT_FALSE(is_there()) << "one more file";
  files::write_plain(folder_ / "c/step-00000001/notes.txt", "");
  EXPECT_TRUE(is_there()) << "two empty ones";
  files::write_plain(folder_ / "c/step-00000001/notes.txt", "x");
  EXPECT_FALSE(is_there());
}

TEST_F(SavedNextToCheckpoints, IsInNoneIfItHasMoreThanFiles) {
  fs::create_directory(model_ / "more");
  EXPECT_FALSE(is_there());
  fs::create_directory(folder_ / "c/step-00000001/more");
  EXPECT_FALSE(is_there());
  fs::remove(model_ / "more");
  EXPECT_TRUE(is_there());
  files::write_plain(folder_ / "c/step-00000001/link", "x");
  files::write_plain(folder_ / "x", "x");
  fs::create_symlink(folder_ / "x", model_ / "link");
  EXPECT_FALSE(is_there());
}

TEST_F(SavedNextToCheckpoints, IsInShards) {
  shard();
  EXPECT_TRUE(is_there());
  fs::resize_file(folder_ / "c/step-00000001/model-00002-of-00002.safetensors", 100);
  EXPECT_FALSE(is_there()) << "a shard is damaged";
  fs::remove(folder_ / "c/step-00000001/model.safetensors.index.json");
  EXPECT_FALSE(is_there()) << "no weights";
}

TEST_F(SavedNextToCheckpoints, IsInNoShardsOfOtherTensors) {
  shard([](std::vector<SavedTensor>& all) { all[3].values.back() += 1; });
  EXPECT_FALSE(is_there()) << "other bytes";
  shard([](std::vector<SavedTensor>& all) { all[3].name += "x"; });
  EXPECT_FALSE(is_there()) << "another name";
  shard([](std::vector<SavedTensor>& all) {
    all[3].shape = Shape{all[3].shape[1], all[3].shape[0]};
  });
  EXPECT_FALSE(is_there()) << "another shape";
  shard([](std::vector<SavedTensor>& all) { all.push_back({"more", Shape{1}, {0}}); });
  EXPECT_TRUE(is_there()) << "all of them and one more";
}

}  // namespace
}  // namespace ridge::train
