// SPDX-License-Identifier: Apache-2.0
// Runs ridge generate, logits, perplexity, bench model and infer-lab as a user does, and checks
// their output and their errors.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/program_run.h"
#include "models/model_file.h"
#include "report/trace_rules.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using InferenceAppTest = ProgramTest;

std::string small_model(const char* name = "llama_fp32") {
  return test_data(std::string("models/") + name).string();
}

json expected(const char* name) {
  return json::parse(files::contents(test_data(std::string("models/") + name) / "expected.json"));
}

std::string joined(const json& ids) {
  std::string text;
  for (const json& id : ids) text += (text.empty() ? "" : ",") + std::to_string(id.get<int>());
  return text;
}

// SmolLM2 if this machine has it, otherwise empty.
std::string published() {
  const auto path = files::fetched_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  return std::filesystem::exists(path) ? path.string() : "";
}

TEST_F(InferenceAppTest, LogitsAreThoseExpected) {
  for (const char* name :
       {"llama_fp32", "llama3_bf16_sharded", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"}) {
    json want = expected(name);
    Output output = run({"logits", small_model(name), "--ids", joined(want["ids"][0]), "--json",
                         "--exact", "--top", "1000"});
    ASSERT_EQ(output.code, 0) << output.err;
    json got = json::parse(output.out);
    EXPECT_EQ(got["tokens"], want["ids"][0].size());
    EXPECT_NEAR(got["logsumexp"].get<double>(), want["logsumexp_last"][0].get<double>(), 2e-3);
    double largest = HUGE_VAL;
    for (const json& each : got["top"]) {
      EXPECT_LE(each[1].get<double>(), largest) << "largest first";
      largest = each[1].get<double>();
      if (each[0].get<size_t>() >= 8) continue;
      EXPECT_NEAR(largest, want["logits_last8"][0][each[0].get<size_t>()].get<double>(), 2e-3);
    }
    EXPECT_EQ(got["top"][0][0], want["argmax"][0].back()) << name;
  }
}

TEST_F(InferenceAppTest, PerplexityIsTheMeanOfItsTokens) {
  Output output = run({"perplexity", small_model(), "--ids", "5,6,7,8,9,10", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  json got = json::parse(output.out);
  EXPECT_EQ(got["tokens"], 6);
  EXPECT_NEAR(got["perplexity"].get<double>(), std::exp(got["nll_mean"].get<double>()), 1e-6);
  // Random weights, so the distribution is nearly uniform.
  EXPECT_NEAR(got["nll_mean"].get<double>(), std::log(160.0), 2);
}

TEST_F(InferenceAppTest, PerplexityComparesCaches) {
  const std::string ids = joined(expected("gemma3_bf16")["ids"][0]);
  auto score = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"perplexity", small_model("gemma3_bf16"), "--ids", ids, "--json"});
    Output output = run(more);
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out);
  };
  const json wide = score({}), narrow = score({"--cache-dtype", "i8"});
  EXPECT_EQ(wide["cache_dtype"], "fp32");
  EXPECT_EQ(narrow["cache_dtype"], "i8");
  EXPECT_FALSE(narrow.contains("compared"));
  const json both = score({"--cache-dtype", "i8", "--compare-cache", "fp32"});
  EXPECT_EQ(both["nll_mean"], narrow["nll_mean"]);
  EXPECT_EQ(both["compared"]["nll_mean"], wide["nll_mean"]);
  EXPECT_EQ(both["compared"]["cache_dtype"], "fp32");
  const double difference = both["compared"]["nll_mean_difference"].get<double>();
  EXPECT_NEAR(difference, narrow["nll_mean"].get<double>() - wide["nll_mean"].get<double>(), 1e-12);
  EXPECT_NE(difference, 0);
  EXPECT_LT(std::abs(difference), 5e-3);
  Output text = run({"perplexity", small_model(), "--ids", "5,6,7,8", "--cache-dtype", "bf16",
                     "--compare-cache", "i8"});
  EXPECT_NE(text.out.find("with the KV cache in i8 instead of bf16: perplexity"),
            std::string::npos);
  EXPECT_NE(text.out.find("difference of bf16 from i8: "), std::string::npos);
}

TEST_F(InferenceAppTest, CachesThatAreNone) {
  const std::string model = small_model();
  expect_refused({"logits", model, "--ids", "1", "--cache-dtype", "int8"}, 2,
                 "[cache-dtype] expected fp32, bf16, i8 or fp8, got \"int8\"");
  expect_refused({"perplexity", model, "--ids", "1,2", "--compare-cache", "q8_0"}, 2,
                 "[compare-cache] expected fp32, bf16, i8 or fp8, got \"q8_0\"");
  expect_refused({"perplexity", model, "--ids", "1,2", "--compare-cache", "fp32"}, 2,
                 "[compare-cache] expected another type than that of the KV cache, got fp32");
  expect_refused({"logits", model, "--ids", "1", "--cache-dtype", "i8", "--pass", "+autocast_bf16"},
                 2, "[cache-dtype] expected bf16, the type of activations, got i8");
  expect_refused(
      {"logits", model, "--ids", "1", "--cache-dtype", "fp32", "--pass", "+autocast_bf16"}, 2,
      "[cache-dtype] expected bf16, the type of activations, got fp32");
  expect_refused({"logits", model, "--ids", "1", "--cache-dtype", "fp8"}, 2,
                 "[cache-dtype] expected fp32, bf16 or i8 on a CPU, got fp8");
  expect_refused({"infer-lab", model, "--exact", "--cache-dtype", "i8"}, 2,
                 "[cache-dtype] expected fp32 or bf16 with --exact, got i8");
  expect_refused({"perplexity", model, "--ids", "1,2", "--exact", "--compare-cache", "i8"}, 2,
                 "[compare-cache] expected fp32 or bf16 with --exact, got i8");
  expect_refused({"generate", model, "text", "--no-kv-cache", "--cache-dtype", "i8"}, 2,
                 "--cache-dtype has no effect with --no-kv-cache");
}

TEST_F(InferenceAppTest, BenchNamesItsCache) {
  Output output = run({"bench", "model", small_model(), "-p", "0", "-n", "2", "-r", "1",
                       "--cache-dtype", "i8", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  EXPECT_EQ(json::parse(output.out)["cache_dtype"], "i8");
}

// Overwrites the first bytes of a tensor in a file.
void plant(const std::string& model, const char* tensor, std::initializer_list<uint8_t> bytes) {
  std::filesystem::path path;
  std::streamoff at = 0;
  {
    const models::ModelFile file = models::ModelFile::open(model);
    path = file.is_gguf() ? file.path() : file.path() / "model.safetensors";
    at = file.bytes(tensor).data() - file.file_parts()[0].data();
  }
  std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(at);
  for (uint8_t byte : bytes) stream.put(static_cast<char>(byte));
}

TEST_F(InferenceAppTest, WeightsThatAreNotFiniteAreNamed) {
  const std::string folder = folder_ / "model", file = folder_ / "model.gguf";
  std::filesystem::copy(small_model(), folder);
  const char* norm = "model.layers.0.input_layernorm.weight";
  plant(folder, norm, {0, 0, 0xc0, 0x7f});  // NaN
  for (const char* level : {"baseline", "compiled"}) {
    expect_refused({"logits", folder, "--ids", "1,2", "--level", level}, 3, norm);
    expect_refused({"perplexity", folder, "--ids", "1,2,3", "--level", level}, 3, norm);
  }
  plant(folder, norm, {0, 0, 0x80, 0x7f});  // infinity
  expect_refused({"logits", folder, "--ids", "1,2"}, 3, norm);
  expect_refused({"perplexity", folder, "--ids", "1,2,3"}, 3, norm);
  Output made = run({"convert", small_model(), file, "--type", "q8_0"});
  ASSERT_EQ(made.code, 0) << made.err;
  plant(file, "blk.1.ffn_down.weight", {0, 0x7e});  // the scale of a block is NaN
  expect_refused({"logits", file, "--ids", "1,2"}, 3, "blk.1.ffn_down.weight");
  expect_refused({"perplexity", file, "--ids", "1,2,3"}, 3, "blk.1.ffn_down.weight");
}

TEST_F(InferenceAppTest, GenerateNamesWeightsThatAreNotFinite) {
  const std::string model = folder_ / "model";
  ASSERT_EQ(run(tiny({"train", "--steps", "1", "--save", model})).code, 0);
  files::write_plain(folder_ / "text.txt", "some text");
  ASSERT_EQ(run({"tokenizer", "train", "text.txt", "--vocab-size", "257", "--special-token",
                 "<|end|>", "--out", "bytes"})
                .code,
            0);
  std::filesystem::copy(folder_ / "bytes" / "tokenizer.json", folder_ / "model" / "tokenizer.json");
  plant(model, "model.norm.weight", {0, 0, 0xc0, 0x7f});  // NaN
  for (std::vector<std::string> more : {std::vector<std::string>{},
                                        {"--temperature", "0.8", "--top-p", "0.9"},
                                        {"--repeat-penalty", "1.1"},
                                        {"--no-kv-cache"},
                                        {"--level", "baseline"},
                                        {"--json"}}) {
    more.insert(more.begin(), {"generate", model, "text"});
    expect_refused(more, 3,
                   "expected finite logits, got nan or infinity; the first tensor that is "
                   "not finite is model.norm.weight");
  }
  expect_refused({"bench", "model", model, "-p", "4", "-n", "2"}, 3, "model.norm.weight");
}

TEST_F(InferenceAppTest, IdsThatAreNone) {
  expect_refused({"logits", small_model(), "--ids", "1,x"}, 2, "[ids]");
  expect_refused({"logits", small_model(), "--ids", ""}, 2, "ids");
  expect_refused({"logits", small_model(), "--ids", "1,2,"}, 2, "[ids]");
  expect_refused({"logits", small_model(), "--ids", "-1"}, 2, "ids");
  expect_refused({"logits", small_model(), "--ids", "1,2000000"}, 2,
                 "[ids] expected ids from 0 to");
  expect_refused({"logits", small_model(), "--ids", "1,2", "--top", "0"}, 2, "[top]");
  expect_refused({"logits", small_model(), "--ids", "1,2,3,4", "--context", "3"}, 2,
                 "[prompt] expected at most 3 tokens");
  expect_refused({"logits", small_model(), "--ids", "1", "--context", "99999999"}, 2, "[context]");
  expect_refused({"logits", small_model(), "--ids", "1", "--context", "0"}, 2, "[context]");
  // One position holds no token that another one predicts.
  expect_refused({"perplexity", small_model(), "--ids", "1,2,3", "--context", "1"}, 2,
                 "[context] expected 2 to");
  expect_refused({"logits", small_model(), "--ids", "1", "--chunk", "0"}, 2, "[chunk]");
  expect_refused({"logits", small_model(), "--ids", "1", "--level", "fastest"}, 2, "[level]");
  expect_refused({"logits", "nowhere", "--ids", "1"}, 3, "nowhere");
  expect_refused({"perplexity", small_model(), "--ids", "1"}, 2, "at least 2 tokens");
  expect_refused({"perplexity", small_model()}, 2, "either FILE or --ids");
  expect_refused({"generate", small_model(), "Hello"}, 3, "tokenizer");
}

TEST_F(InferenceAppTest, BenchModelInThreeForms) {
  std::vector<std::string> line{"bench", "model",    small_model(), "-p", "16",
                                "-n",    "4,8",      "-r",          "2",  "-b",
                                "2",     "--device", "cpu",         "-t", "1"};
  auto with = [&](const char* format) {
    std::vector<std::string> all = line;
    all.insert(all.end(), {"--format", format});
    return run(all);
  };
  Output md = with("md");
  ASSERT_EQ(md.code, 0) << md.err;
  for (const char* test : {"pp16", "tg4", "tg8", "tokens/s"})
    EXPECT_NE(md.out.find(test), std::string::npos) << md.out;
  json made = json::parse(with("json").out);
  EXPECT_EQ(made["threads"], 1);
  EXPECT_EQ(made["batch"], 2);
  ASSERT_EQ(made["tests"].size(), 3u);
  EXPECT_EQ(made["tests"][0]["test"], "pp16");
  EXPECT_EQ(made["tests"][0]["samples"].size(), 2u);
  EXPECT_GT(made["tests"][2]["tokens_per_s"], 0);
  std::string csv = with("csv").out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_EQ(run({"bench", "model", small_model(), "-p", "0", "-n", "2", "-d", "8", "-r", "1"}).code,
            0);
  // A configuration without weights, and the list of its kernels.
  Output shape = run({"bench", "model", small_model() + "/config.json", "--random-weights", "-p",
                      "8", "-n", "2", "-r", "1", "--operations", "--format", "md"});
  EXPECT_EQ(shape.code, 0) << shape.err;
  EXPECT_NE(shape.out.find("| cached_attention |"), std::string::npos);
  EXPECT_NE(shape.out.find("a decode step: "), std::string::npos);
  expect_refused({"bench", "model", small_model(), "-p", "0", "-n", "0"}, 2, "[bench]");
  expect_refused({"bench", "model", small_model(), "-p", "many"}, 2, "[prompt-tokens]");
  expect_refused({"bench", "model", small_model(), "-p", "9999999"}, 2, "the model's context");
  expect_refused({"bench", "model", small_model(), "-n", "2", "-d", "9223372036854775807"}, 2,
                 "the model's context");
  expect_refused({"bench", "model", small_model(), "-r", "0"}, 2, "[repeats]");
  expect_refused({"bench", "model", small_model(), "-b", "0"}, 2, "[batch-size]");
  expect_refused({"bench", "model", small_model(), "--format", "xml"}, 2, "[format]");
}

TEST_F(InferenceAppTest, InferLabLeavesTheFilesOfALab) {
  Output output =
      run({"infer-lab", small_model(), "--seq-len", "16,32", "--batch-size", "1,2",
           "--latency-batch-size", "1,2", "--prompt-tokens", "8", "--tokens", "4",
           "--attention-seq-len", "64,128", "--seconds", "10", "--out", "study", "--verbose"});
  ASSERT_EQ(output.code, 0) << output.err;
  for (const char* part : {"Prefill and decode", "Attention module and MLP", "The KV cache",
                           "Latency", "Standard against flash attention", "MFU:", "MBU:"})
    EXPECT_NE(output.out.find(part), std::string::npos) << part;
  for (const char* file :
       {"performance_summary.json", "flops_profile.json", "computational_intensity.json",
        "operators.csv", "memory.json", "kernels.json", "trace.json", "infer_summary.json",
        "report.md", "report.html"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "study" / file)) << file;
  json runs = json::parse(files::contents(folder_ / "study" / "performance_summary.json"))["runs"];
  EXPECT_EQ(runs.size(), 2u * (4 + 3))
      << "every level at the first batch and length, the last level at the others";
  for (const json& each : runs) {
    EXPECT_LE(each["logits_difference"].get<double>(), 1e-4) << each["setting"];
    EXPECT_EQ(each["modules"].size(), 2u);
    EXPECT_GT(each["modules"][0]["time_ns"].get<double>(), 0);
    EXPECT_GT(each["mbu"].get<double>(), 0);
    EXPECT_EQ(each["memory"]["allocated_bytes"].get<int64_t>() > 0, true);
  }
  json study = json::parse(files::contents(folder_ / "study" / "infer_summary.json"));
  EXPECT_EQ(study["kv_cache"].size(), 2u);
  EXPECT_EQ(study["latency"].size(), 2u);
  EXPECT_EQ(study["attention"].size(), 4u);
  EXPECT_LE(study["kv_cache"][0]["logits_difference"].get<double>(), 1e-4);
  // A prefill and a decode step.
  for (const char* name : {"trace.json", "trace-2.json"}) {
    const json trace = json::parse(files::contents(folder_ / "study" / name));
    EXPECT_GT(trace["traceEvents"].size(), 20u);
    EXPECT_EQ(report::TraceRules(trace).broken(), std::vector<std::string>{}) << name;
  }
  // The readers of ridge lab's folders read it too.
  EXPECT_EQ(run({"diff", "study", "study"}).code, 0);
  EXPECT_EQ(run({"explain", "study"}).code, 0);
  expect_refused({"infer-lab", small_model(), "--out", "study"}, 2, "--force");
  expect_refused({"infer-lab", small_model(), "--seq-len", "9999999"}, 2, "[seq-len]");
  expect_refused({"infer-lab", small_model(), "--tokens", "1"}, 2, "[tokens]");
  expect_refused({"infer-lab", small_model(), "--seconds", "0"}, 2, "[seconds]");
}

TEST_F(InferenceAppTest, LogitsHaveTheTextOfTheirTokens) {
  const std::string model = folder_ / "model";
  ASSERT_EQ(run(tiny({"train", "--steps", "1", "--save", model})).code, 0);
  EXPECT_EQ(json::parse(run({"logits", model, "--ids", "1", "--json"}).out)["top"][0].size(), 2u);
  files::write_plain(folder_ / "text.txt", "some text");
  ASSERT_EQ(run({"tokenizer", "train", "text.txt", "--vocab-size", "257", "--special-token",
                 "<|end|>", "--pre-tokenizer", "none", "--out", "bytes"})
                .code,
            0);
  std::filesystem::copy(folder_ / "bytes" / "tokenizer.json", folder_ / "model" / "tokenizer.json");
  // All tokens, among them a control character, a line end and ids beyond the tokenizer.
  Output shown = run({"logits", model, "--ids", "1", "--top", "1000"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const char* text : {"\"<|end|>\"\n", "\"a\"\n", "\"\\x0a\"\n", "\"\\x1b\"\n", "\"\"\n"})
    EXPECT_NE(shown.out.find(text), std::string::npos) << text;
  EXPECT_EQ(std::count(shown.out.begin(), shown.out.end(), '\n'), 1001);
  const json top = json::parse(run({"logits", model, "--ids", "1", "--top", "1000", "--json"}).out);
  std::map<int, std::string> texts;
  for (const json& each : top["top"]) texts[each[0]] = each.at(2);
  EXPECT_EQ(texts.at(0), "<|end|>");
  EXPECT_EQ(texts.at(999), "");
  EXPECT_EQ(std::ranges::count_if(texts, [](const auto& t) { return t.second == "\n"; }), 1);
}

TEST_F(InferenceAppTest, WindowsMayBeInEveryLayerOrInNone) {
  const std::string folder = folder_ / "model";
  std::filesystem::copy(test_data("models/gemma3_bf16"), folder);
  json config = json::parse(files::contents(folder + "/config.json"));
  for (const char* type : {"sliding_attention", "full_attention"}) {
    config["layer_types"] = std::vector<std::string>(config["num_hidden_layers"], type);
    files::write_plain(folder + "/config.json", config.dump());
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"logits", folder, "--ids", "1,2,3"},
          {"plan", "--inference", "--config", folder + "/config.json", "--hardware", "h100"}}) {
      const Output output = run(command);
      EXPECT_EQ(output.code, 0) << type << "\n" << output.err;
    }
  }
}

class GenerateAppTest : public ProgramTest {
 protected:
  void SetUp() override {
    model_ = published();
    if (model_.empty())
      GTEST_SKIP()
          << "SmolLM2-135M-Instruct.Q4_1.gguf is not on this machine: make models fetches it";
  }
  json generate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"generate", model_});
    arguments.push_back("--json");
    Output output = run(arguments);
    EXPECT_EQ(output.code, 0) << output.err;
    return output.code == 0 ? json::parse(output.out) : json();
  }
  std::string model_;
};

TEST_F(GenerateAppTest, PrintsWhatWasGenerated) {
  json made = generate({"The capital of France is", "--max-tokens", "6"});
  EXPECT_EQ(made["ids"].size(), 6u);
  EXPECT_EQ(made["finish_reason"], "length");
  EXPECT_NE(made["text"].get<std::string>().find("Paris"), std::string::npos);
  EXPECT_GT(made["timings"]["ttft_ms"], 0);
  EXPECT_EQ(generate({"The capital of France is", "--max-tokens", "6", "--no-kv-cache"})["ids"],
            made["ids"]);
  json stopped = generate({"The capital of France is", "--max-tokens", "6", "--stop", "Par"});
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["text"].get<std::string>().find("Par"), std::string::npos);
  json none = generate({"The capital of France is", "--max-tokens", "0"});
  EXPECT_EQ(none["ids"].size(), 0u);
  EXPECT_EQ(none["prompt_ids"], made["prompt_ids"]);
  EXPECT_EQ(none["finish_reason"], "length");
}

TEST_F(GenerateAppTest, ChatsAndDraws) {
  json chat = generate({"--chat", "Name one river.", "--max-tokens", "3"});
  // The rendered conversation begins with <|im_start|>; no token is added before it.
  EXPECT_EQ(chat["prompt_ids"][0], 1);
  auto drawn = [&](const char* seed) {
    return generate({"Once", "--max-tokens", "8", "--temperature", "1", "--top-k", "50", "--top-p",
                     "0.95", "--min-p", "0.01", "--repeat-penalty", "1.1", "--seed", seed})["ids"];
  };
  EXPECT_EQ(drawn("7"), drawn("7"));
  EXPECT_NE(drawn("7"), drawn("8"));
}

// The reason stands next to a text that is shorter than asked for.
TEST_F(GenerateAppTest, SaysThatTheContextCutTheText) {
  const Output cut = run({"generate", model_, "Hello", "--context", "8", "--max-tokens", "50"});
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_NE(cut.err.find("The context of 8 tokens is full"), std::string::npos) << cut.err;
  const Output one = run({"generate", model_, "Hello", "--max-tokens", "1"});
  EXPECT_EQ(one.err.find("is full"), std::string::npos) << one.err;
  EXPECT_EQ(one.err.find("tokens/s"), std::string::npos) << "no rate of one token: " << one.err;
}

TEST_F(GenerateAppTest, RefusesWhatCannotBe) {
  expect_refused({"generate", model_, ""}, 2, "[prompt]");
  expect_refused({"generate", model_, "Hello", "--max-tokens", "-1"}, 2, "[max-tokens]");
  expect_refused({"generate", model_, "Hello there, you", "--context", "2"}, 2,
                 "[prompt] expected at most 2 tokens");
  expect_refused({"generate", model_, "Hello", "--temperature", "-1"}, 2, "[temperature]");
  expect_refused({"generate", model_, "Hello", "--top-p", "1.5"}, 2, "[top-p]");
  expect_refused({"generate", model_, "Hello", "--min-p", "nan"}, 2, "[min-p]");
  expect_refused({"generate", model_, "Hello", "--top-k", "-3"}, 2, "[top-k]");
  expect_refused({"generate", model_, "Hello", "--repeat-penalty", "0"}, 2, "[repeat-penalty]");
  expect_refused({"generate", model_, "Hello", "--seed", "-1"}, 2, "[seed]");
  expect_refused({"generate", model_, "Hello", "--stop", ""}, 2, "[stop]");
  expect_refused({"generate", model_, "Hello", "--system", "x"}, 2, "[system]");
  expect_refused({"generate", model_, "Hello", "--chat", "--chat-template", "none"}, 2, "none");
}

}  // namespace
}  // namespace ridge::apps
