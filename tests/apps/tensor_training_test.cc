// SPDX-License-Identifier: Apache-2.0
// Tests of several processes that train one model together, alone and beside others with batches of
// their own: they train what one process does.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/rank_run.h"
#include "test_paths.h"

namespace ridge::apps {
namespace {

// How many ranks train on different sequences, and how many share each model.
struct Layout {
  int data = 1, tensor = 1;
};

class TensorTrainingTest : public RankTest {
 protected:
  // Trains on 4 sequences of 32 tokens a step, and returns the losses, which have four digits.
  std::vector<double> train(const Layout& layout, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",
                                      "--device",
                                      "cpu",
                                      "--seq-len",
                                      "32",
                                      "--batch-size",
                                      std::to_string(4 / layout.data)};
    if (layout.data > 1)
      words.insert(words.end(), {"--data-parallel", std::to_string(layout.data)});
    if (layout.tensor > 1)
      words.insert(words.end(), {"--tensor-parallel", std::to_string(layout.tensor)});
    words.insert(words.end(), more.begin(), more.end());
    const Output output = run(words, {.environment = kOnAnyMachine});
    EXPECT_EQ(output.code, 0) << output.err;
    std::vector<double> found;
    constexpr std::string_view kLoss = "  loss ";
    for (size_t at = 0; (at = output.out.find(kLoss, at)) != std::string::npos;)
      found.push_back(std::stod(output.out.substr(at += kLoss.size())));
    return found;
  }
  // The same with all digits, from the log.
  std::vector<double> train_logged(const Layout& layout, std::vector<std::string> more) const {
    std::filesystem::remove_all(folder_ / "log");
    more.insert(more.end(), {"--log-dir", "log"});
    train(layout, more);
    std::vector<double> found;
    std::istringstream lines(files::contents(folder_ / "log" / "metrics.jsonl"));
    for (std::string each; std::getline(lines, each);) {
      const auto step = nlohmann::json::parse(each, nullptr, false);
      if (!step.is_discarded() && step.contains("loss")) found.push_back(step["loss"]);
    }
    return found;
  }
  std::vector<double> train_tiny(const Layout& layout, std::vector<std::string> more) const {
    more.insert(more.end(), {"--preset", "tiny", "--warmup", "0"});
    return train(layout, more);
  }
  static std::string small(const std::string& name) {
    return source_file("tests/data/models/" + name);
  }
  // "ids.bin": ids below 64, of two bytes each.
  void write_ids() const {
    std::string bytes;
    for (int i = 0; i < 4000; ++i) bytes += {static_cast<char>(1 + i * i % 61), '\0'};
    files::write_plain(folder_ / "ids.bin", bytes);
  }
  std::string saved(const std::string& model) const {
    return files::contents(folder_ / model / "model.safetensors");
  }
};

// Sums over ranks have another order than those of one.
void expect_same(const std::vector<double>& want,
                 const std::vector<double>& got,
                 double most = 1.1e-4) {
  ASSERT_FALSE(want.empty());
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], most) << "step " << i;
}

TEST_F(TensorTrainingTest, TrainWhatOneProcessTrains) {
  const std::vector<std::string> words = {"--preset", "tiny", "--warmup", "0", "--steps", "10"};
  const std::vector<double> one = train_logged({}, words);
  ASSERT_EQ(one.size(), 10u);
  for (const Layout& each : {Layout{1, 2}, Layout{1, 4}, Layout{2, 2}})
    expect_same(one, train_logged(each, words), 1e-5 * one[0]);
}

TEST_F(TensorTrainingTest, EveryLevelAndMicroBatchesWithClippingTrainTheSame) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--level", "baseline", "--clip", "0.5"},
           {"--level", "kernels", "--micro-batches", "2", "--clip", "0.1"},
           {"--pass", "+recompute", "--clip", "0.1"}}) {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--steps", "5"});
    const std::vector<double> one = train_tiny({}, words);
    expect_same(one, train_tiny({1, 2}, words));
    expect_same(one, train_tiny({2, 2}, words));
  }
}

TEST_F(TensorTrainingTest, SequencePartsTrainTheSame) {
  const std::vector<std::string> words = {"--steps", "10", "--clip", "0.1"};
  std::vector<std::string> parts = words;
  parts.emplace_back("--sequence-parallel");
  const std::vector<double> one = train_tiny({}, words);
  for (const Layout& each : {Layout{1, 2}, Layout{1, 4}, Layout{2, 2}})
    expect_same(one, train_tiny(each, parts));
  parts.insert(parts.end(), {"--pass", "+recompute", "--level", "baseline"});
  expect_same(one, train_tiny({1, 2}, parts));
}

TEST_F(TensorTrainingTest, ShareOutTheirStatesToo) {
  const std::vector<std::string> words = {"--steps", "6", "--micro-batches", "2", "--clip", "0.1"};
  const std::vector<double> one = train_tiny({}, words);
  for (const char* stage : {"1", "2", "3"}) {
    std::vector<std::string> more = words;
    more.insert(more.end(), {"--zero", stage});
    expect_same(one, train_tiny({2, 2}, more));
  }
}

// At this level no GEMM is chosen by timing.
TEST_F(TensorTrainingTest, GiveTheSameBitsInEveryRun) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--sequence-parallel"}}) {
    for (const char* name : {"first", "second"}) {
      std::vector<std::string> words = {"--steps", "3", "--level", "kernels", "--save", name};
      words.insert(words.end(), more.begin(), more.end());
      std::filesystem::remove_all(folder_ / name);
      train_tiny({2, 2}, words);
    }
    EXPECT_FALSE(saved("first").empty());
    EXPECT_TRUE(saved("first") == saved("second"));
  }
}

TEST_F(TensorTrainingTest, Train16BitFloats) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const std::vector<std::string> words = {"--steps", "4", "--dtype", dtype};
    expect_same(train_tiny({}, words), train_tiny({1, 2}, words), 2e-3);
  }
}

// Gemma has one KV head here and norms after its halves, Qwen biases and norms of heads.
TEST_F(TensorTrainingTest, FamiliesAreFineTunedAsByOneProcess) {
  write_ids();
  for (const char* model :
       {"llama_fp32", "gemma3_bf16", "gemma3_cap_fp32", "qwen2_fp32", "qwen3_bf16"}) {
    SCOPED_TRACE(model);
    const std::vector<std::string> words = {"--model", small(model), "--data", "ids.bin",
                                            "--steps", "4",          "--clip", "0.5"};
    const std::vector<double> one = train({}, words);
    for (const Layout& each : {Layout{1, 2}, Layout{1, 4}, Layout{2, 2}})
      expect_same(one, train(each, words));
    std::vector<std::string> parts = words;
    parts.emplace_back("--sequence-parallel");
    expect_same(one, train({1, 4}, parts));
  }
}

// Ranks beyond the two KV heads share them, and add up their gradients.
TEST_F(TensorTrainingTest, AdaptersAreTrainedAsByOneProcess) {
  write_ids();
  for (const char* model : {"llama_fp32", "qwen3_bf16"}) {
    SCOPED_TRACE(model);
    const std::vector<std::string> words = {
        "--model",     small(model), "--data",         "ids.bin",
        "--steps",     "4",          "--pass",         "+lora",
        "--lora-rank", "4",          "--lora-targets", "q_proj,k_proj,o_proj,down_proj,gate_proj",
        "--lr",        "0.01",       "--clip",         "0.5"};
    const std::vector<double> one = train({}, words);
    for (const Layout& each : {Layout{1, 2}, Layout{1, 4}, Layout{2, 2}})
      expect_same(one, train(each, words));
    std::vector<std::string> parts = words;
    parts.emplace_back("--sequence-parallel");
    expect_same(one, train({1, 2}, parts));
  }
}

// Each layout goes on from the checkpoint of each other one.
TEST_F(TensorTrainingTest, ResumeInAnyLayout) {
  write_ids();
  const auto words = [](const char* steps) {
    return std::vector<std::string>{
        "--model", small("qwen3_bf16"), "--data", "ids.bin", "--save-every", "4",
        "--level", "kernels",           "--clip", "0.5",     "--steps",      steps};
  };
  struct Way {
    Layout layout;
    std::vector<std::string> more;
  };
  const std::vector<Way> ways = {{{1, 1}, {}},
                                 {{1, 4}, {"--sequence-parallel"}},
                                 {{2, 2}, {"--zero", "1"}},
                                 {{2, 1}, {"--zero", "3"}}};
  const auto train_way = [&](const Way& way, const char* steps, std::vector<std::string> more) {
    more.insert(more.end(), way.more.begin(), way.more.end());
    const std::vector<std::string> base = words(steps);
    more.insert(more.end(), base.begin(), base.end());
    return train(way.layout, more);
  };
  const std::vector<double> unbroken = train_way(ways[0], "6", {"--checkpoints", "unbroken"});
  for (const Way& from : ways) {
    for (const char* each : {"c", "r"}) std::filesystem::remove_all(folder_ / each);
    train_way(from, "4", {"--checkpoints", "c", "--save", "r"});
    const std::string want = saved("r");
    EXPECT_FALSE(want.empty());
    for (const Way& to : ways) {
      SCOPED_TRACE(testing::Message() << from.layout.data << " x " << from.layout.tensor << " to "
                                      << to.layout.data << " x " << to.layout.tensor);
      for (const char* each : {"c2", "r"}) std::filesystem::remove_all(folder_ / each);
      std::filesystem::copy(folder_ / "c", folder_ / "c2",
                            std::filesystem::copy_options::recursive);
      // No step is left to train: the model is that of the checkpoint, byte by byte.
      train_way(to, "4", {"--checkpoints", "c2", "--resume", "--save", "r"});
      EXPECT_TRUE(want == saved("r"));
      const std::vector<double> rest = train_way(to, "6", {"--checkpoints", "c2", "--resume"});
      ASSERT_EQ(rest.size(), 2u);
      for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(rest[i], unbroken[4 + i], 1.1e-4);
    }
  }
}

// Two ranks write two shards, and the same layout goes on bit by bit.
TEST_F(TensorTrainingTest, ResumeBitByBit) {
  write_ids();
  const auto train_to = [&](const char* folder, const char* steps, std::vector<std::string> more) {
    more.insert(more.end(), {"--model", small("llama_fp32"), "--data", "ids.bin", "--save-every",
                             "2", "--level", "kernels", "--checkpoints", folder, "--steps", steps});
    train({1, 2}, more);
  };
  train_to("whole", "6", {});
  train_to("broken", "4", {});
  train_to("broken", "6", {"--resume"});
  int files = 0;
  for (const auto& each : std::filesystem::directory_iterator(folder_ / "whole/step-00000006")) {
    const std::string name = each.path().filename();
    files += name.find("-of-00002.safetensors") != std::string::npos ? 1 : 0;
    EXPECT_TRUE(files::contents(each.path()) ==
                files::contents(folder_ / "broken/step-00000006" / name))
        << name;
  }
  EXPECT_EQ(files, 4) << "of weights and of moments";
  EXPECT_EQ(run({"logits", "whole/step-00000006", "--ids", "1,2"}).code, 0);
}

TEST_F(TensorTrainingTest, OtherNumbersOfRanksAreUsageErrors) {
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--preset", "tiny", "--device", "cpu", "--steps", "1"});
    const Output output = run(words, {.environment = kOnAnyMachine});
    EXPECT_EQ(output.code, 2) << output.err;
    return output.err;
  };
  EXPECT_NE(error({"--tensor-parallel", "3"}).find("ranks, which divide"), std::string::npos);
  EXPECT_NE(error({"--tensor-parallel", "2", "--zero", "1"}).find("[zero] expected several ranks"),
            std::string::npos);
  EXPECT_NE(error({"--sequence-parallel"}).find("expected ranks that share a model"),
            std::string::npos);
  EXPECT_NE(error({"--tensor-parallel", "2", "--sequence-parallel", "--seq-len", "3",
                   "--batch-size", "1"})
                .find("expected tokens of a batch that 2 ranks divide, got 3"),
            std::string::npos);
}

}  // namespace
}  // namespace ridge::apps
