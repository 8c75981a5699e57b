// SPDX-License-Identifier: Apache-2.0
// A trainer's tensors as a file has them: whole on every rank, whatever part a rank has, in the
// order of names and of transformers' rows, with adapters apart or merged.
#include "train/saved_state.h"

#include <algorithm>
#include <mutex>

#include "models/row_order.h"
#include "train/optimizer.h"
#include "train/trainer_ranks.h"

namespace ridge::train {
namespace {

// Numbers that tell each element of each tensor apart.
std::vector<float> pattern(const std::string& name, const Shape& shape, float of = 1) {
  size_t sum = 0;
  for (const char each : name) sum = (31 * sum + static_cast<size_t>(each)) % 1009;
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = of * (static_cast<float>(sum) + static_cast<float>(i) / 8192);
  return values;
}

void fill(Trainer& trainer, std::string_view suffix = "", float of = 1) {
  restore_tensors(
      trainer,
      [&](const std::string& name, const Shape& shape) { return pattern(name, shape, of); },
      suffix);
}

void expect_pattern(const std::vector<SavedTensor>& tensors, size_t count, float of = 1) {
  ASSERT_EQ(tensors.size(), count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(tensors[i].values, pattern(tensors[i].name, tensors[i].shape, of)) << tensors[i].name;
    EXPECT_TRUE(i == 0 || tensors[i - 1].name < tensors[i].name) << tensors[i].name;
  }
}

std::unique_ptr<Trainer> alone(backends::Backend& backend, const std::string& switches = "") {
  StepOptions options = small_step();
  options.lora.rank = 4, options.lora.alpha = 2;
  return std::make_unique<Trainer>(
      StepSetup{small_config(), options, passes::Selection("baseline", switches)}, backend);
}

constexpr size_t kTensors = 2 * 9 + 2;  // two layers, the table and the last norm

struct Ranks {
  const char* name;
  plan::RankLayout layout;
  const char* switches;
  friend void PrintTo(const Ranks& each, std::ostream* out) { *out << each.name; }
};

class SavedByRanks : public testing::TestWithParam<Ranks> {};

TEST_P(SavedByRanks, AreTheTensorsOfOne) {
  const auto backend = cpu_backend(1);
  const std::vector<SavedTensor> one = saved_tensors(*alone(*backend));
  ASSERT_EQ(one.size(), kTensors);
  run_trainers(GetParam().layout, small_step(), GetParam().switches, [&](TrainerRank& rank) {
    const std::vector<SavedTensor> all = saved_tensors(*rank.trainer);
    ASSERT_EQ(all.size(), one.size());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].name, one[i].name);
      EXPECT_EQ(all[i].shape, one[i].shape) << all[i].name;
      EXPECT_EQ(all[i].values, one[i].values) << all[i].name;
    }
  });
}

TEST_P(SavedByRanks, AreThoseThatWereRestored) {
  run_trainers(GetParam().layout, small_step(), GetParam().switches, [&](TrainerRank& rank) {
    fill(*rank.trainer);
    fill(*rank.trainer, kFirstMoment, 2);
    fill(*rank.trainer, kSecondMoment, 3);
    expect_pattern(saved_tensors(*rank.trainer), kTensors);
    expect_pattern(saved_tensors(*rank.trainer, kFirstMoment), kTensors, 2);
    expect_pattern(saved_tensors(*rank.trainer, kSecondMoment), kTensors, 3);
    expect_pattern(whole_model(*rank.trainer), kTensors);
  });
}

// Every rank asks for the same tensors by their whole shapes, and keeps those that it wants.
TEST_P(SavedByRanks, AreAskedForByEveryRank) {
  std::mutex mutex;
  std::vector<std::vector<std::string>> asked;
  run_trainers(GetParam().layout, small_step(), GetParam().switches, [&](TrainerRank& rank) {
    fill(*rank.trainer);
    std::vector<std::string> own;
    const std::vector<SavedTensor> kept =
        saved_tensors(*rank.trainer, "", [&](const std::string& name, const Shape& shape) {
          own.push_back(fmt::format("{} {}", name, shape.elements()));
          return shape.rank() == 2 && rank.rank == 1;
        });
    expect_pattern(kept, rank.rank == 1 ? 2 * 7 + 1 : 0);
    const std::lock_guard lock(mutex);
    asked.push_back(own);
  });
  ASSERT_EQ(std::ssize(asked), GetParam().layout.ranks());
  EXPECT_EQ(asked[0].size(), kTensors);
  for (const auto& each : asked) EXPECT_EQ(each, asked[0]);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    SavedByRanks,
    testing::Values(Ranks{"Copies", {2, 1, 1}, "+data_parallel=2"},
                    Ranks{"SharedStates", {2, 1, 1}, "+zero=3"},
                    Ranks{"Tensor", {1, 2, 1}, "+train_tensor_parallel=2"},
                    Ranks{"Stages", {1, 1, 2}, ""},
                    Ranks{"StagesOfSeveral", {1, 2, 2}, "+train_tensor_parallel=2"}),
    [](const auto& each) { return std::string(each.param.name); });

// The first and the last stage have the table; the first one's is saved.
TEST(SavedByStages, ATableOfTwoStagesIsTheFirstOnes) {
  run_trainers({1, 1, 2}, small_step(), "", [](TrainerRank& rank) {
    fill(*rank.trainer, "", rank.rank == 0 ? 1 : 7);
    for (const SavedTensor& each : saved_tensors(*rank.trainer)) {
      const bool is_first =
          each.name == "model.embed_tokens.weight" || each.name.starts_with("model.layers.0.");
      EXPECT_EQ(each.values, pattern(each.name, each.shape, is_first ? 1 : 7)) << each.name;
    }
  });
}

TEST(SavedTensors, HaveTheRowsOfAFile) {
  const auto backend = cpu_backend(1);
  const auto trainer = alone(*backend);
  fill(*trainer);
  const models::ModelConfig& config = trainer->config();
  EXPECT_TRUE(config.rope_interleaved);
  const models::RowOrder order(config.head_size, true, false);
  const auto hidden = config.hidden;
  for (const auto& [name, rows, moves] :
       {std::tuple("q_proj", config.heads * config.head_size, true),
        std::tuple("k_proj", config.kv_heads * config.head_size, true),
        std::tuple("v_proj", config.kv_heads * config.head_size, false)}) {
    const std::string full = fmt::format("model.layers.1.self_attn.{}.weight", name);
    const std::vector<float> stored = trainer->store().read_floats(full),
                             file = pattern(full, {rows, hidden});
    ASSERT_EQ(stored.size(), file.size());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < hidden; ++i)
        ASSERT_EQ(stored[static_cast<size_t>(row * hidden + i)],
                  file[static_cast<size_t>((moves ? order.at(row) : row) * hidden + i)])
            << full << " " << row;
  }
}

TEST(SavedTensors, AreLeftOutAsAskedFor) {
  const auto backend = cpu_backend(1);
  const auto trainer = alone(*backend);
  const std::vector<SavedTensor> kept =
      saved_tensors(*trainer, "", [](const std::string& name, const Shape& shape) {
        return name.ends_with("norm.weight") && shape == Shape{32};
      });
  ASSERT_EQ(kept.size(), 5u);
  EXPECT_EQ(kept[0].name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(kept[4].name, "model.norm.weight");
  EXPECT_TRUE(saved_tensors(*trainer, ".no_such_state").empty());
}

TEST(SavedTensors, HaveTheConfigurationOfAFile) {
  const auto backend = cpu_backend(1);
  const auto trainer = alone(*backend);
  const models::ModelConfig form = saved_config(*trainer);
  EXPECT_FALSE(form.rope_interleaved);
  EXPECT_EQ(form.name, trainer->config().name);
  EXPECT_EQ(form.parameters(), trainer->config().parameters());
}

TEST(SavedTensors, AreSourcesOfAFile) {
  const std::vector<SavedTensor> tensors{{"a", {2, 1}, {1, 2}}, {"b", {1}, {3}}};
  const std::vector<files::TensorSource> sources = sources_of(tensors, ".m");
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].name, "a.m");
  EXPECT_EQ(sources[1].name, "b.m");
  EXPECT_EQ(sources[0].dtype, DType::kF32);
  EXPECT_EQ(sources[0].shape, (Shape{2, 1}));
  EXPECT_EQ(sources[0].read().size(), 8u);
  EXPECT_EQ(sources[0].read().data(),
            std::as_bytes(std::span<const float>(tensors[0].values)).data());
  EXPECT_EQ(sources_of(tensors)[1].name, "b");
}

// Adapters of q_proj and v_proj in two layers.
class SavedAdapters : public testing::Test {
 protected:
  SavedAdapters() {
    restore_tensors(*trainer_, [](const std::string& name, const Shape& shape) {
      std::vector<float> values = pattern(name, shape, 1e-4f);
      for (size_t i = 0; i < values.size(); ++i) values[i] *= i % 3 == 0 ? -1.f : 1.f;
      return values;
    });
  }
  static const SavedTensor& find(const std::vector<SavedTensor>& all, const std::string& name) {
    const auto found = std::ranges::find(all, name, &SavedTensor::name);
    EXPECT_NE(found, all.end()) << name;
    return *found;
  }

  std::unique_ptr<backends::Backend> backend_ = cpu_backend(1);
  std::unique_ptr<Trainer> trainer_ = alone(*backend_, "+lora");
};

TEST_F(SavedAdapters, AreAllThatIsSaved) {
  const std::vector<SavedTensor> adapters = saved_tensors(*trainer_);
  std::vector<std::string> names;
  for (const SavedTensor& each : adapters) names.push_back(each.name);
  std::vector<std::string> expected;
  for (const char* layer : {"0", "1"})
    for (const char* target : {"q_proj", "v_proj"})
      for (const char* part : {"A", "B"})
        expected.push_back(
            fmt::format("model.layers.{}.self_attn.{}.lora_{}.weight", layer, target, part));
  EXPECT_EQ(names, expected);
  EXPECT_EQ(adapters[0].shape, (Shape{4, 32}));
  EXPECT_EQ(adapters[1].shape, (Shape{32, 4}));
  EXPECT_EQ(adapters[3].shape, (Shape{16, 4}));
  EXPECT_EQ(saved_tensors(*trainer_, kFirstMoment).size(), expected.size());
  size_t asked = 0;
  EXPECT_EQ(saved_tensors(*trainer_, "",
                          [&](const std::string& name, const Shape&) {
                            ++asked;
                            return name.ends_with("A.weight");
                          })
                .size(),
            4u);
  EXPECT_EQ(asked, expected.size());
}

// B makes rows of q, and moves with them; A makes none.
TEST_F(SavedAdapters, MoveWithTheRowsThatTheyMake) {
  const std::vector<SavedTensor> adapters = saved_tensors(*trainer_);
  const std::string a = "model.layers.0.self_attn.q_proj.lora_A.weight",
                    b = "model.layers.0.self_attn.q_proj.lora_B.weight";
  EXPECT_EQ(trainer_->store().read_floats(a), find(adapters, a).values);
  const std::vector<float> stored = trainer_->store().read_floats(b),
                           &file = find(adapters, b).values;
  const models::RowOrder order(8, true, false);
  for (int64_t row = 0; row < 32; ++row)
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(stored[static_cast<size_t>(row * 4 + i)],
                file[static_cast<size_t>(order.at(row) * 4 + i)])
          << row;
}

// W + alpha / rank B A.
TEST_F(SavedAdapters, AreMergedIntoAWholeModel) {
  const auto plain = alone(*backend_);
  const std::vector<SavedTensor> weights = saved_tensors(*plain),
                                 adapters = saved_tensors(*trainer_),
                                 merged = whole_model(*trainer_);
  ASSERT_EQ(merged.size(), weights.size());
  for (size_t t = 0; t < merged.size(); ++t) {
    ASSERT_EQ(merged[t].name, weights[t].name);
    EXPECT_EQ(merged[t].shape, weights[t].shape);
    const std::string& name = merged[t].name;
    if (name.find("q_proj") == std::string::npos && name.find("v_proj") == std::string::npos) {
      EXPECT_EQ(merged[t].values, weights[t].values) << name;
      continue;
    }
    const std::string stem = name.substr(0, name.size() - std::string(".weight").size());
    const std::vector<float>&a = find(adapters, stem + ".lora_A.weight").values,
          &b = find(adapters, stem + ".lora_B.weight").values;
    double change = 0;
    for (size_t row = 0; row < b.size() / 4; ++row)
      for (size_t i = 0; i < 32; ++i) {
        double sum = 0;
        for (size_t k = 0; k < 4; ++k)
          sum += 0.5 * static_cast<double>(b[row * 4 + k]) * static_cast<double>(a[k * 32 + i]);
        ASSERT_NEAR(merged[t].values[row * 32 + i],
                    static_cast<double>(weights[t].values[row * 32 + i]) + sum, 1e-6)
            << name;
        change += std::abs(sum);
      }
    EXPECT_GT(change, 1e-2) << name;
  }
}

}  // namespace
}  // namespace ridge::train
