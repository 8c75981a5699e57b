// SPDX-License-Identifier: Apache-2.0
// Fine-tuning published models next to transformers and PEFT: the same weights, ids and AdamW.
// RIDGE_PEER_PYTHON is a Python with torch, transformers and peft; otherwise pip fetches them.
#include <cmath>

#include "apps/finetune_case.h"
#include "peer_python.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

constexpr int64_t kSteps = 20, kSequence = 64, kWindows = 2;

// The loss is 2 to 4 at each of 20 steps.
constexpr double kAllowed = 1e-3;

struct Published {
  const char* name;
  const char* file;  // `make models` fetches it
  int64_t vocabulary;
};

class PublishedModel : public FinetuneCase, public testing::WithParamInterface<Published> {
 protected:
  // Empty, or the reason why nothing can be compared.
  std::string prepare() {
    const std::filesystem::path file = files::fetched_model(GetParam().file);
    if (!std::filesystem::exists(file)) return "make models fetches " + file.string();
    python_ = python_with("peft, transformers, torch", "torch transformers peft", folder_.path());
    if (python_.empty()) return "pip could not fetch torch, transformers and peft";
    gguf_ = file.string();
    succeed({"convert", gguf_, "base", "--type", "f32"});
    files::write_plain(folder_ / "a.txt", files::contents(test_data("text/corpus.en")));
    succeed({"data", "tokenize", "a.txt", "--tokenizer", gguf_, "--out", "tokens"});
    const std::string bytes = files::contents(folder_ / "tokens/shard-00000.bin");
    const size_t width = GetParam().vocabulary > 65536 ? 4 : 2;
    std::vector<int32_t> ids(static_cast<size_t>(kWindows * kSequence + 1));
    for (size_t i = 0; i < ids.size(); ++i)
      for (size_t byte = 0; byte < width; ++byte)
        ids[i] |= static_cast<uint8_t>(bytes.at(i * width + byte)) << 8 * byte;
    write_windows(ids, kSequence, GetParam().vocabulary);
    return "";
  }
  void succeed(std::vector<std::string> arguments) const {
    const Output output = run(std::move(arguments));
    ASSERT_EQ(output.code, 0) << output.err;
  }
  void tune(const std::string& model, std::vector<std::string> more) const {
    succeed(line(model, kWindows, kSequence, std::move(more)));
  }
  json peer(const std::string& more) const {
    const std::string said = output_of(
        fmt::format("cd '{}' && '{}' '{}' base windows.json {} 2>peer.txt", folder_.path().string(),
                    python_, source_file("tools/finetune_peer.py").string(), more));
    EXPECT_FALSE(said.empty()) << files::contents(folder_ / "peer.txt");
    return json::parse(said, nullptr, false);
  }
  void expect_losses(const std::string& what,
                     const json& want,
                     const std::vector<double>& got) const {
    ASSERT_TRUE(want.is_object());
    ASSERT_EQ(want["losses"].size(), got.size());
    double top = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double difference = std::abs(want["losses"][i].get<double>() - got[i]);
      EXPECT_LT(difference, kAllowed) << what << " step " << i;
      top = std::max(top, difference);
    }
    fmt::print(
        "{}, {}: loss {:.5f} to {:.5f}; largest difference from transformers {} (torch {}): {:.2e}\n",
        GetParam().name, what, got.front(), got.back(), want["transformers"].get<std::string>(),
        want["torch"].get<std::string>(), top);
    EXPECT_LT(got.back(), got.front() - 0.3) << what;
  }

  std::string python_, gguf_;
};

// From the quantized GGUF file as it is published: transformers has its dequantized weights.
TEST_P(PublishedModel, HasTheLossesOfTransformers) {
  if (const std::string reason = prepare(); !reason.empty()) GTEST_SKIP() << reason;
  tune(gguf_, {"--steps", std::to_string(kSteps), "--lr", "2e-5", "--log-dir", "whole"});
  expect_losses("all parameters", peer("--rate 2e-5"), losses("whole"));
  tune("base", {"--steps", std::to_string(kSteps), "--lr", "2e-5", "--freeze",
                "*embed_tokens*,*norm*", "--log-dir", "part"});
  expect_losses("without table and norms", peer("--rate 2e-5 --freeze '*embed_tokens*,*norm*'"),
                losses("part"));
}

TEST_P(PublishedModel, TrainsAdaptersAsPeftDoes) {
  if (const std::string reason = prepare(); !reason.empty()) GTEST_SKIP() << reason;
  const auto lora = [&](const std::string& steps, const std::string& rate,
                        std::vector<std::string> more) {
    more.insert(more.end(), {"--steps", steps, "--lr", rate, "--pass", "+lora", "--lora-rank", "8",
                             "--lora-alpha", "16"});
    tune("base", std::move(more));
  };
  lora("1", "0", {"--save", "first"});  // the adapter's first values
  lora(std::to_string(kSteps), "5e-4", {"--save", "adapter", "--log-dir", "log"});
  expect_losses("adapters", peer("--rate 5e-4 --adapter first"), losses("log"));
  // The saved adapter in PEFT, and merged.
  const json want = peer("--logits-adapter adapter");
  succeed({"convert", "base", "--adapter", "adapter", "merged"});
  std::string ids;
  const json windows = json::parse(files::contents(folder_ / "windows.json"));
  for (size_t i = 0; i < static_cast<size_t>(kSequence); ++i)
    ids += (i == 0 ? "" : ",") + std::to_string(windows[0][i].get<int>());
  const Output output = run({"logits", "merged", "--ids", ids, "--json", "--top", "100"});
  ASSERT_EQ(output.code, 0) << output.err;
  const json got = json::parse(output.out);
  ASSERT_EQ(got["top"].size(), 100u);
  double top = 0;
  for (const json& each : got["top"])
    top =
        std::max(top, std::abs(each[1].get<double>() - want[each[0].get<size_t>()].get<double>()));
  fmt::print("{}, merged adapter: largest difference of 100 logits from PEFT's: {:.2e}\n",
             GetParam().name, top);
  EXPECT_LT(top, 2e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    PublishedModel,
    testing::Values(Published{"SmolLM2_135M", "SmolLM2-135M-Instruct.Q4_1.gguf", 49152},
                    Published{"Gemma3_270M", "gemma-3-270m-q4_k_m.gguf", 262144}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ridge::apps
