// SPDX-License-Identifier: Apache-2.0
// ridge train from the weights of a model: where it begins, what it saves, and what is refused.
#include "apps/finetune_case.h"
#include "files/safetensors.h"
#include "models/convert.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

class FinetuneTest : public FinetuneCase {
 protected:
  FinetuneTest() {
    std::vector<int32_t> ids;
    // Without 0, the padding of these models: PyTorch's embedding has no gradient for it.
    for (int i = 0; i < 33; ++i) ids.push_back(1 + i * i * 7 % 89);
    write_windows(ids, 16, 96);
  }
  static std::string small(const std::string& name) { return test_data("models/" + name).string(); }

  Output tune(const std::string& model, std::vector<std::string> more) const {
    more.insert(more.end(), {"--threads", "1", "--pass", "-tune_gemm"});
    return run(line(model, 2, 16, std::move(more)));
  }
  // The losses of the steps' lines.
  static std::vector<std::string> printed(const Output& output) {
    EXPECT_EQ(output.code, 0) << output.err;
    std::vector<std::string> losses;
    std::istringstream lines(output.out);
    for (std::string each; std::getline(lines, each);)
      if (each.starts_with("step ")) losses.push_back(each.substr(each.find("loss "), 11));
    return losses;
  }
  json logits(const std::string& model, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"logits", model, "--ids",   "1,5,9",     "--json",
                                 "--top",  "160", "--exact", "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Output output = run(std::move(all));
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out, nullptr, false);
  }
  // The largest difference of a logit.
  static double distance(const json& a, const json& b) {
    std::map<int, double> of_a;
    for (const json& each : a["top"]) of_a[each[0]] = each[1];
    double most = 0;
    for (const json& each : b["top"])
      most = std::max(most, std::abs(of_a.at(each[0]) - each[1].get<double>()));
    return most;
  }
};

constexpr const char* kModels[] = {"llama_fp32", "llama3_bf16_sharded", "gemma3_bf16",
                                   "mistral_fp32"};

// At a rate of 0 the saved model is the one that training started from.
TEST_F(FinetuneTest, BeginsAtTheModelOfEachFormat) {
  for (const char* name : kModels) {
    SCOPED_TRACE(name);
    const std::string folder = small(name), saved = std::string(name) + "-saved";
    const Output output = tune(folder, {"--steps", "1", "--lr", "0", "--save", saved});
    ASSERT_EQ(output.code, 0) << output.err;
    EXPECT_EQ(output.err.find("dequantized"), std::string::npos);
    const json want = logits(folder), got = logits(saved);
    for (size_t i = 0; i < 90; ++i)
      ASSERT_NEAR(want["top"][i][1].get<double>(), got["top"][i][1].get<double>(), 1e-3);
    if (std::string(name).starts_with("mistral")) continue;  // GGUF has no windows of Mistral
    const std::string gguf = std::string(name) + ".gguf";
    ASSERT_EQ(run({"convert", folder, gguf}).code, 0);
    EXPECT_EQ(printed(tune(gguf, {"--steps", "4", "--lr", "0.01"})),
              printed(tune(folder, {"--steps", "4", "--lr", "0.01"})));
  }
}

// tools/finetune_peer.py with --steps 6 --rate 0.01: transformers 5.24.0, torch 2.8.0.
TEST_F(FinetuneTest, HasTheLossesOfTransformers) {
  struct Run {
    const char* model;
    const char* frozen;
    std::vector<double> losses;
  };
  const Run runs[] = {
      {"llama_fp32", "", {5.841589, 3.927436, 2.437727, 1.377906, 0.766089, 0.360757}},
      {"llama3_bf16_sharded", "", {5.573875, 3.297795, 1.668727, 0.721851, 0.265566, 0.127702}},
      {"mistral_fp32", "", {4.667330, 3.425447, 2.608520, 2.020100, 1.561611, 1.226818}},
      {"gemma3_bf16", "", {5.602166, 3.839266, 2.279997, 1.324894, 0.664656, 0.386421}},
      {"gemma3_bf16",
       "*embed_tokens*,*norm*",
       {5.602166, 3.905597, 2.558646, 1.694938, 1.072376, 0.754953}}};
  for (const Run& each : runs)
    for (const char* level : {"baseline", "compiled"}) {
      std::vector<std::string> more{"--steps", "6", "--lr", "0.01", "--level", level};
      if (*each.frozen != 0) more.insert(more.end(), {"--freeze", each.frozen});
      const std::vector<std::string> got = printed(tune(small(each.model), more));
      ASSERT_EQ(got.size(), each.losses.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(std::stod(got[i].substr(5)), each.losses[i], 1e-3)
            << each.model << " " << each.frozen << " " << level << " step " << i;
    }
}

TEST_F(FinetuneTest, SaysWhichTypesItDequantizes) {
  ASSERT_EQ(run({"convert", small("llama_fp32"), "q.gguf", "--type", "q8_0"}).code, 0);
  const Output output = tune("q.gguf", {"--steps", "1"});
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_NE(output.err.find("note: weights in q8_0 are dequantized"), std::string::npos)
      << output.err;
}

TEST_F(FinetuneTest, LearnsAndSavesWhatItLearned) {
  for (const char* name : {"llama_fp32", "gemma3_bf16"}) {
    const std::string saved = std::string(name) + "-tuned";
    const std::vector<std::string> first =
        printed(tune(small(name), {"--steps", "6", "--lr", "0.01", "--save", saved}));
    ASSERT_EQ(first.size(), 6u);
    EXPECT_LT(std::stod(first[5].substr(5)), std::stod(first[0].substr(5)) - 0.5) << name;
    // The saved model goes on below.
    const std::vector<std::string> second = printed(tune(saved, {"--steps", "1", "--lr", "0.01"}));
    EXPECT_LT(std::stod(second[0].substr(5)), std::stod(first[5].substr(5))) << name;
  }
}

TEST_F(FinetuneTest, ResumesBitByBit) {
  const std::vector<std::vector<std::string>> forms{
      {}, {"--freeze", "*embed*,*norm*"}, {"--lora-rank", "4", "--level", "fused"}};
  for (size_t form = 0; form < forms.size(); ++form) {
    const std::string folder = "c" + std::to_string(form);
    const auto tuned = [&](int steps, bool saves) {
      std::vector<std::string> all{"--steps", std::to_string(steps), "--lr", "0.01"};
      all.insert(all.end(), forms[form].begin(), forms[form].end());
      if (saves) all.insert(all.end(), {"--checkpoints", folder, "--resume"});
      all.insert(all.end(),
                 {"--threads", "1", "--pass", form == 2 ? "-tune_gemm,+lora" : "-tune_gemm"});
      return run(line(small("gemma3_bf16"), 2, 16, all));
    };
    const std::vector<std::string> whole = printed(tuned(6, false));
    printed(tuned(3, true));
    EXPECT_EQ(printed(tuned(6, true)), std::vector<std::string>(whole.begin() + 3, whole.end()));
  }
  // Other parameters cannot be trained now.
  const Output other =
      tune(small("gemma3_bf16"), {"--steps", "9", "--checkpoints", "c1", "--resume"});
  EXPECT_EQ(other.code, 3);
  EXPECT_NE(other.err.find("expected freeze \"\", as in this training, found"), std::string::npos)
      << other.err;
}

// An adapter that was trained and merged gives the loss of the training that made it.
TEST_F(FinetuneTest, MergedAdaptersAreTheTrainedModel) {
  for (const char* name : {"llama_fp32", "gemma3_bf16"}) {
    const std::string adapter = std::string(name) + "-adapter",
                      merged = std::string(name) + "-merged";
    const auto tuned = [&](int steps, std::vector<std::string> more) {
      more.insert(more.end(), {"--steps", std::to_string(steps), "--lr", "0.02", "--lora-rank", "4",
                               "--lora-alpha", "8", "--lora-targets",
                               "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
                               "--threads", "1", "--pass", "-tune_gemm,+lora"});
      return run(line(small(name), 2, 16, more));
    };
    const std::vector<std::string> longer = printed(tuned(6, {}));
    printed(tuned(5, {"--save", adapter}));
    EXPECT_TRUE(std::filesystem::exists(folder_ / adapter / "adapter_model.safetensors"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / adapter / "config.json"));
    const json config = json::parse(files::contents(folder_ / adapter / "adapter_config.json"));
    EXPECT_EQ(config["r"], 4);
    EXPECT_EQ(config["base_model_name_or_path"], small(name));
    ASSERT_EQ(run({"convert", small(name), "--adapter", adapter, merged, "--type", "f32"}).code, 0);
    const std::vector<std::string> first = printed(tune(merged, {"--steps", "1", "--lr", "0"}));
    ASSERT_EQ(longer.size(), 6u);
    EXPECT_NEAR(std::stod(first[0].substr(5)), std::stod(longer[5].substr(5)), 2e-4) << name;
    EXPECT_LT(std::stod(longer[5].substr(5)), std::stod(longer[0].substr(5)) - 0.2) << name;
  }
}

// The merge in memory is that of ridge convert, also for rows in the order of GGUF and for
// quantized weights.
TEST_F(FinetuneTest, CommandsRunAModelWithAnAdapter) {
  const std::string base = small("llama_fp32");
  printed(run(line(base, 2, 16,
                   {"--steps", "5", "--lr", "0.02", "--lora-rank", "4", "--lora-alpha", "8",
                    "--lora-targets", "q_proj,k_proj,v_proj,up_proj", "--threads", "1", "--pass",
                    "-tune_gemm,+lora", "--save", "adapter"})));
  ASSERT_EQ(run({"convert", base, "--adapter", "adapter", "merged", "--type", "f32"}).code, 0);
  ASSERT_EQ(run({"convert", base, "base.gguf"}).code, 0);
  ASSERT_EQ(run({"convert", base, "q8.gguf", "--type", "q8_0"}).code, 0);
  const json want = logits("merged");
  const double changed = distance(want, logits(base));
  EXPECT_GT(changed, 0.1);
  EXPECT_EQ(distance(want, logits(base, {"--adapter", "adapter"})), 0);
  EXPECT_LT(distance(want, logits("base.gguf", {"--adapter", "adapter"})), 1e-4);
  EXPECT_LT(distance(want, logits("q8.gguf", {"--adapter", "adapter"})), 0.3 * changed);
  const auto score = [&](const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> all{"perplexity", model,     "--ids",     "1,5,9,3,7",
                                 "--json",     "--exact", "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Output output = run(std::move(all));
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out, nullptr, false)["nll_mean"];
  };
  EXPECT_EQ(score(base, {"--adapter", "adapter"}), score("merged", {}));
  EXPECT_NE(score(base, {}), score("merged", {}));
  for (const char* program : {"generate", "serve", "logits", "perplexity"}) {
    std::vector<std::string> all{program, small("gemma3_bf16"), "--adapter", "adapter"};
    if (program == std::string("logits") || program == std::string("perplexity"))
      all.insert(all.end(), {"--ids", "1,2"});
    if (program == std::string("serve")) all.insert(all.end(), {"--port", "0"});
    expect_refused(all, 3, "adapter_model.safetensors");
    all[3] = "missing";
    expect_refused(all, 3, "missing");
  }
}

TEST_F(FinetuneTest, RefusesWhatDoesNotFit) {
  const std::string llama = small("llama_fp32");
  const auto expect = [&](std::vector<std::string> more, int code, const std::string& part) {
    std::vector<std::string> all{"train", "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    expect_refused(std::move(all), code, part);
  };
  expect({"--model", "nowhere"}, 3, "found nothing");
  expect({"--model", llama, "--preset", "tiny"}, 2, "one of --model, --preset and --config");
  expect({"--model", llama, "--seq-len", "100000"}, 2, "[seq-len] expected at most");
  expect(
      {"--model", llama, "--data", "ids.bin", "--tokenizer", test_data("models/tokenizers/gpt2")},
      2, "ids.bin has");
  expect({"--model", llama, "--freeze", "*nothing*"}, 2,
         "[freeze] expected a pattern that matches");
  expect({"--model", llama, "--lora-rank", "4"}, 2, "without --pass +lora");
  expect({"--model", llama, "--pass", "+lora", "--lora-rank", "0"}, 2, "[lora-rank]");
  for (const char* alpha : {"nan", "0"})
    expect({"--model", llama, "--pass", "+lora", "--lora-alpha", alpha}, 2, "[lora-alpha]");
  expect({"--model", llama, "--pass", "+lora", "--lora-targets", "q_proj,"}, 2, "[lora-targets]");
  expect({"--model", llama, "--pass", "+lora", "--freeze", "*"}, 2, "with --pass +lora");
  expect({"--preset", "tiny", "--pass", "+lora", "--save", "s"}, 2, "[save] expected --model");
  expect_refused({"convert", llama, "out", "--adapter", "nowhere"}, 3, "adapter_config.json");
}

}  // namespace
}  // namespace ridge::apps
