// SPDX-License-Identifier: Apache-2.0
// Ranks write one checkpoint together: a shard each, an index of all, and the rest by the first.
#include <nlohmann/json.hpp>

#include "files/scratch.h"
#include "train/checkpoint.h"
#include "train/checkpoint_shards.h"
#include "train/optimizer.h"
#include "train/trainer_ranks.h"

namespace ridge::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& each : fs::directory_iterator(folder))
    names.push_back(each.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TrainingState at(int64_t step) {
  TrainingState state;
  state.step = step;
  state.settings = nlohmann::ordered_json::object();
  return state;
}

std::vector<std::vector<float>> values_of(const Trainer& trainer) {
  std::vector<std::vector<float>> all;
  for (const char* suffix : {"", kFirstMoment, kSecondMoment})
    for (const SavedTensor& each : saved_tensors(trainer, suffix)) all.push_back(each.values);
  return all;
}

std::unique_ptr<Trainer> alone(backends::Backend& backend, const std::string& switches = "") {
  return std::make_unique<Trainer>(
      StepSetup{small_config(), small_step(), passes::Selection("baseline", switches)}, backend);
}

class CheckpointOfRanks : public testing::Test {
 protected:
  void save(const plan::RankLayout& layout, const std::string& switches, int64_t steps = 2) const {
    run_trainers(layout, small_step(), switches, [&](TrainerRank& rank) {
      losses(*rank.trainer, steps);
      CheckpointWriter writer(folder_ / "c", {}, nullptr, rank.all.get());
      writer.save(*rank.trainer, at(steps), 0);
      writer.wait();
      EXPECT_GT(writer.blocked_ns(), 0);
    });
  }
  FoundCheckpoint found() const {
    std::vector<RefusedCheckpoint> refused;
    const auto newest = newest_checkpoint(folder_ / "c", refused);
    EXPECT_TRUE(newest) << (refused.empty() ? "none" : refused[0].reason);
    return newest.value_or(FoundCheckpoint{});
  }

  files::ScratchFolder folder_;
  std::unique_ptr<backends::Backend> backend_ = cpu_backend(1);
};

TEST_F(CheckpointOfRanks, HasAShardOfEach) {
  save({2, 1, 1}, "+data_parallel=2");
  const FoundCheckpoint made = found();
  EXPECT_EQ(made.state.step, 2);
  EXPECT_EQ(names_in(made.path),
            (std::vector<std::string>{
                "config.json", "manifest.json", "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                "moments-00001-of-00002.safetensors", "moments-00002-of-00002.safetensors",
                "moments.safetensors.index.json", "state.json"}));
  const auto weights = nlohmann::json::parse(
      files::contents(made.path / "model.safetensors.index.json"))["weight_map"];
  EXPECT_EQ(weights.size(), 20u);
  EXPECT_EQ(weights.at("model.embed_tokens.weight"), "model-00001-of-00002.safetensors");
  EXPECT_EQ(weights.at("model.layers.0.input_layernorm.weight"),
            "model-00002-of-00002.safetensors");
  const auto moments = nlohmann::json::parse(
      files::contents(made.path / "moments.safetensors.index.json"))["weight_map"];
  EXPECT_EQ(moments.size(), 2u * 20);
  EXPECT_EQ(moments.at("model.embed_tokens.weight.exp_avg"), "moments-00001-of-00002.safetensors");
  EXPECT_EQ(moments.at("model.layers.0.input_layernorm.weight.exp_avg_sq"),
            "moments-00002-of-00002.safetensors");
  // No tensor is in two files.
  EXPECT_EQ(open_tensors(made.path, "model").tensors().all().size(), 20u);
  EXPECT_EQ(open_tensors(made.path, "moments").tensors().all().size(), 40u);
}

// Ranks of each layout write what one process reads, and the other way round.
TEST_F(CheckpointOfRanks, IsReadInAnyLayout) {
  for (const auto& [layout, switches] :
       {std::pair(plan::RankLayout{2, 1, 1}, "+zero=3"),
        std::pair(plan::RankLayout{1, 2, 1}, "+train_tensor_parallel=2")}) {
    fs::remove_all(folder_ / "c");
    save(layout, switches);
    const auto one = alone(*backend_);
    restore(found(), *one);
    EXPECT_EQ(one->steps(), 2);
    const std::vector<std::vector<float>> expected = values_of(*one);
    EXPECT_NE(expected, values_of(*alone(*backend_)));
    run_trainers(layout, small_step(), switches, [&](TrainerRank& rank) {
      EXPECT_NE(values_of(*rank.trainer), expected);
      restore(found(), *rank.trainer);
      EXPECT_EQ(values_of(*rank.trainer), expected);
    });
  }
}

// The copies of a model trained on halves of a batch: its sum is that of one process.
TEST_F(CheckpointOfRanks, HasWhatOneProcessWouldHave) {
  const auto one = alone(*backend_);
  losses(*one, 2);
  save({1, 2, 1}, "+train_tensor_parallel=2");
  const auto restored = alone(*backend_);
  restore(found(), *restored);
  const std::vector<SavedTensor> expected = saved_tensors(*one), actual = saved_tensors(*restored);
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t k = 0; k < expected[i].values.size(); ++k)
      ASSERT_NEAR(actual[i].values[k], expected[i].values[k], 1e-4) << expected[i].name;
}

TEST_F(CheckpointOfRanks, HasAdaptersInOneFile) {
  save({2, 1, 1}, "+lora,+data_parallel=2");
  EXPECT_EQ(
      names_in(found().path),
      (std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors", "config.json",
                                "manifest.json", "moments.safetensors", "state.json"}));
  const auto one = alone(*backend_, "+lora");
  restore(found(), *one);
  EXPECT_EQ(saved_tensors(*one).size(), 8u);
  EXPECT_EQ(open_tensors(found().path, "moments").tensors().all().size(), 16u);
}

// Every rank saves again and again; old checkpoints go once.
TEST_F(CheckpointOfRanks, TakesThePlaceOfOlderOnes) {
  run_trainers({2, 1, 1}, small_step(), "+data_parallel=2", [&](TrainerRank& rank) {
    CheckpointPolicy policy;
    policy.keep = 2;
    CheckpointWriter writer(folder_ / "c", policy, nullptr, rank.all.get());
    for (const int64_t step : {1, 2, 2, 3}) writer.save(*rank.trainer, at(step), 0);
    writer.wait();
  });
  EXPECT_EQ(names_in(folder_ / "c"), (std::vector<std::string>{"step-00000002", "step-00000003"}));
  EXPECT_EQ(found().state.step, 3);
}

// The shard of the second rank does not come, because its weights are not finite. The first one
// hears of it when its writer ends, and leaves nothing.
TEST_F(CheckpointOfRanks, IsNoneIfAShardIsMissing) {
  const std::string name = "model.layers.0.input_layernorm.weight";  // the second rank's
  run_trainers({2, 1, 1}, small_step(), "+data_parallel=2", [&](TrainerRank& rank) {
    const bool is_first = rank.rank == 0;
    if (!is_first) rank.trainer->store().write(name, std::vector<float>(32, NAN).data(), 32 * 4);
    CheckpointWriter writer(folder_ / "c", {}, nullptr, rank.all.get());
    if (is_first) {
      writer.save(*rank.trainer, at(1), 0);
      return;
    }
    files::expect_error([&] { writer.save(*rank.trainer, at(1), 0); }, ExitCode::kRuntime,
                        name + " has values that are not finite");
    rank.all->gather("");  // the first rank tells the path that all write into
  });
  EXPECT_TRUE(fs::is_empty(folder_ / "c"));
}

// The second rank leaves before it writes its shard. The first one does not wait for the file.
TEST_F(CheckpointOfRanks, IsNoneIfARankLeaves) {
  run_trainers({2, 1, 1}, small_step(), "+data_parallel=2", [&](TrainerRank& rank) {
    if (rank.rank == 1) {
      rank.all->any(false);
      EXPECT_EQ(fs::path(rank.all->gather("")[0]).parent_path(), folder_ / "c");
      return;
    }
    CheckpointWriter writer(folder_ / "c", {}, nullptr, rank.all.get());
    writer.save(*rank.trainer, at(1), 0);
    EXPECT_THROW(writer.wait(), Error);
  });
  EXPECT_TRUE(fs::is_empty(folder_ / "c"));
}

TEST(WaitForFiles, ReturnsWhenAllAreThere) {
  const files::ScratchFolder folder;
  std::stop_source stops;
  stops.request_stop();
  files::write_plain(folder / "a", "x");
  wait_for_files(folder.path(), {}, stops.get_token());
  const std::vector<std::string> one{"a"}, two{"a", "b"};
  wait_for_files(folder.path(), one, stops.get_token());
  try {
    wait_for_files(folder.path(), two, stops.get_token());
    ADD_FAILURE() << "b is missing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_EQ(error.what(), fmt::format("[{}] the checkpoint is not complete: b is missing",
                                        folder.path().string()));
  }
}

// Without a request to stop it waits for those that come later.
TEST(WaitForFiles, WaitsForLaterOnes) {
  const files::ScratchFolder folder;
  std::stop_source stops;
  const std::vector<std::string> files{"a", "b"};
  std::jthread writer([&] {
    files::write_plain(folder / "b", "x");
    files::write_plain(folder / "a", "x");
  });
  wait_for_files(folder.path(), files, stops.get_token());
  EXPECT_TRUE(fs::exists(folder / "a"));
  EXPECT_TRUE(fs::exists(folder / "b"));
}

TEST(OpenTensors, ReadsAFileOrTheShardsOfAnIndex) {
  const files::ScratchFolder folder;
  EXPECT_EQ(index_name("moments"), "moments.safetensors.index.json");
  const std::vector<SavedTensor> whole{{"whole", {1}, {1}}}, part{{"part", {1}, {2}}};
  files::write_safetensors(folder / "model.safetensors", sources_of(whole));
  EXPECT_NE(open_tensors(folder.path(), "model").tensors().find("whole"), nullptr);
  TensorOwners owners(2);
  owners.of("part", 1);
  files::write_safetensors(folder / owners.file("model", 0), sources_of(part));
  const std::vector<std::string_view> endings{""};
  files::write_plain(folder / index_name("model"), owners.index("model", endings));
  const auto opened = open_tensors(folder.path(), "model");
  EXPECT_NE(opened.tensors().find("part"), nullptr) << "the index comes first";
  EXPECT_EQ(opened.tensors().find("whole"), nullptr);
  files::expect_error([&] { open_tensors(folder.path(), "other"); }, ExitCode::kBadFile,
                      "other.safetensors");
}

}  // namespace
}  // namespace ridge::train
