// SPDX-License-Identifier: Apache-2.0
// The data of a training as its options name them, and the model that it starts from, as a
// checkpoint remembers both.
#include "train/training_data.h"

#include <nlohmann/json.hpp>

#include "files/scratch.h"
#include "train/small_run.h"
#include "train/starting_model.h"

namespace ridge::train {
namespace {

class TrainingDataTest : public testing::Test {
 protected:
  // A file of ids of 16 bits that count up.
  std::string ids(const std::string& name, size_t count) const {
    std::vector<uint16_t> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = static_cast<uint16_t>(i % 64);
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), 2 * count);
    files::write_plain(folder_ / name, bytes);
    return (folder_ / name).string();
  }

  files::ScratchFolder folder_;
  TrainingDataOptions options_;
};

// Batches as large as those of a step, and as many as the options say.
TEST_F(TrainingDataTest, ValidatesOnTheGivenNumberOfBatches) {
  constexpr int64_t kSequence = 8, kBatch = 2;
  options_.data = {ids("a.bin", 1000)};
  options_.validation = ids("v.bin", 1000);
  options_.validation_batches = 3;
  TrainingData data(options_, 64, nullptr, {});
  data.make_batches(kSequence, 64, kBatch);
  ASSERT_EQ(data.validation().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Batch& batch = data.validation()[i];
    ASSERT_EQ(std::ssize(batch.ids), kBatch * kSequence);
    EXPECT_EQ(batch.ids[0], static_cast<int32_t>(i) * kBatch * kSequence);
    EXPECT_EQ(batch.labels[0], batch.ids[0] + 1);
  }
}

TEST_F(TrainingDataTest, IsRememberedByItsSetsAndTheirOrder) {
  const std::string a = ids("a.bin", 1000), b = ids("b.bin", 500);
  options_.data = {a, b + "=0.25"};
  options_.seed = 7;
  TrainingData data(options_, 64, nullptr, {});
  data.make_batches(8, 64, 2);
  const nlohmann::ordered_json made = data.identity();
  EXPECT_EQ(made.at("seed"), 7);
  ASSERT_EQ(made.at("sets").size(), 2u);
  EXPECT_EQ(made.at("sets")[0].at("path"), a);
  EXPECT_EQ(made.at("sets")[0].at("weight"), 1);
  EXPECT_EQ(made.at("sets")[1].at("ids"), 500);
  EXPECT_EQ(made.at("sets")[1].at("weight"), 0.25);
  EXPECT_NE(made.at("sets")[0].at("hash"), made.at("sets")[1].at("hash"));
}

TEST(StartingModelTest, IsRememberedByItsFileAndTheWeightsThatWereRead) {
  const std::string folder = test_data("models/llama_fp32").string();
  const auto file = std::make_shared<models::ModelFile>(models::ModelFile::open(folder));
  const auto identity = [&](std::initializer_list<const char*> read) {
    int64_t read_bytes = 0;
    StartingModel model(file, [&](int64_t bytes) { read_bytes += bytes; });
    const runtime::TensorSource weights = model.weights();
    for (const char* name : read)
      EXPECT_EQ(weights(name, {DType::kF32, {file->config().hidden}}).size() * 4, read_bytes);
    return model.identity();
  };
  constexpr const char *kNorm = "model.norm.weight",
                       *kOther = "model.layers.0.input_layernorm.weight";
  const nlohmann::ordered_json made = identity({kNorm});
  EXPECT_EQ(made.at("path"), file->path().string());
  EXPECT_EQ(made.at("bytes"), file->file_bytes());
  EXPECT_EQ(identity({kNorm}), made);
  EXPECT_NE(identity({kOther}).at("weights"), made.at("weights"));
}

}  // namespace
}  // namespace ridge::train
