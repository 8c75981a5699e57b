// SPDX-License-Identifier: Apache-2.0
// Tests of several processes that share a model: they answer as one process does.
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/rank_run.h"
#include "http/http_client.h"
#include "runtime/rank_launcher.h"
#include "test_paths.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

class TensorParallelTest : public RankTest {
 protected:
  static std::string small(const std::string& name) {
    return source_file("tests/data/models/" + name);
  }

  Output share(int ranks, std::vector<std::string> words) const {
    words.insert(words.end(),
                 {"--device", "cpu", "--json", "--tensor-parallel", std::to_string(ranks)});
    return run(words, {.environment = kOnAnyMachine});
  }
  json answer(int ranks, const std::vector<std::string>& words) const {
    const Output output = share(ranks, words);
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out, nullptr, false);
  }

  // The ranks' sums have another order than those of one process.
  void expect_same_logits(int ranks, const std::vector<std::string>& words) const {
    const json one = answer(1, words), all = answer(ranks, words);
    ASSERT_EQ(one["top"].size(), all["top"].size());
    EXPECT_NEAR(one["logsumexp"], all["logsumexp"], 1e-4);
    for (size_t i = 0; i < one["top"].size(); ++i) {
      EXPECT_EQ(one["top"][i][0], all["top"][i][0]);
      EXPECT_NEAR(one["top"][i][1], all["top"][i][1], 1e-4);
    }
  }

  // A model of random weights with the heads of SmolLM2 and a tokenizer.
  void make_model(const std::vector<std::string>& more = {}) const {
    const json shape = {{"model_type", "llama"},       {"vocab_size", 300},
                        {"hidden_size", 288},          {"num_hidden_layers", 2},
                        {"num_attention_heads", 9},    {"num_key_value_heads", 3},
                        {"intermediate_size", 768},    {"max_position_embeddings", 64},
                        {"tie_word_embeddings", false}};
    files::write_plain(folder_ / "shape.json", shape.dump());
    std::vector<std::string> words = {"convert", "--random-weights", "shape.json", "model"};
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(run(words).code, 0);
    std::string text;
    for (int i = 0; i < 4000; ++i) text += i % 5 == 4 ? ' ' : static_cast<char>('a' + i * i % 23);
    files::write_plain(folder_ / "text.txt", text);
    ASSERT_EQ(run({"tokenizer", "train", "text.txt", "--vocab-size", "300", "--out", "words"}).code,
              0);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy(folder_ / "words" / file, folder_ / "model" / file);
  }
};

// The second rank reads a file of the same size whose last byte differs.
TEST_F(TensorParallelTest, RanksThatReadOtherModelsAreRefused) {
  for (const char* each : {"one", "other"})
    std::filesystem::copy(small("llama_fp32"), folder_ / each);
  std::string weights = files::contents(folder_ / "other" / "model.safetensors");
  weights.back() ^= 1;
  files::write_plain(folder_ / "other" / "model.safetensors", weights);
  files::write_plain(
      folder_ / "second.sh",
      "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then for w; do [ \"$w\" = one ] && w=other; "
      "set -- \"$@\" \"$w\"; shift; done; fi\nexec \"$@\"\n");
  const Output output =
      run({"logits", "one", "--ids", "1,2,3", "--device", "cpu", "--tensor-parallel", "2"},
          {.environment = kOnAnyMachine,
           .launcher = {"/usr/bin/mpirun", "-n", "2", "/bin/sh", "second.sh"}});
  EXPECT_EQ(output.code, 2) << output.err;
  EXPECT_NE(output.err.find("expected every rank to read the same model; rank 0 has \"one"),
            std::string::npos)
      << output.err;
  EXPECT_NE(output.err.find("rank 1 has \"other"), std::string::npos) << output.err;
}

TEST_F(TensorParallelTest, FamiliesHaveTheLogitsOfOneRank) {
  for (const char* model : {"llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"})
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(testing::Message() << model << " on " << ranks);
      expect_same_logits(ranks, {"logits", small(model), "--ids", "1,2,3,4,5,6,7"});
    }
}

TEST_F(TensorParallelTest, EveryLevelHasTheLogitsOfOneRank) {
  for (const char* level : {"baseline", "fused", "kernels"})
    expect_same_logits(2, {"logits", small("qwen2_window_fp32"), "--ids", "1,2,3,4,5,6,7",
                           "--level", level, "--exact"});
}

TEST_F(TensorParallelTest, NineHeadsOnThreeRanksGenerateTheTextOfOne) {
  make_model();
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {}, {"--temperature", "1", "--seed", "5", "--top-p", "0.9"}}) {
    std::vector<std::string> words = {"generate", "model", "abc", "--max-tokens", "24"};
    words.insert(words.end(), more.begin(), more.end());
    const json one = answer(1, words), all = answer(3, words);
    EXPECT_EQ(one["ids"].size(), 24u);
    EXPECT_EQ(one["ids"], all["ids"]);
    EXPECT_EQ(one["text"], all["text"]);
  }
}

TEST_F(TensorParallelTest, QuantizedWeightsAreCutInWholeBlocks) {
  make_model();
  ASSERT_EQ(run({"convert", "model", "q8.gguf", "--type", "q8_0"}).code, 0);
  expect_same_logits(3, {"logits", "q8.gguf", "--ids", "1,2,3", "--exact"});
  ASSERT_EQ(run({"convert", "--random-weights", "shape.json", "q4.gguf", "--type", "q4_0"}).code,
            0);
  expect_same_logits(3, {"logits", "q4.gguf", "--ids", "1,2,3", "--exact"});
}

TEST_F(TensorParallelTest, PerplexityIsThatOfOneRank) {
  const std::vector<std::string> words = {"perplexity", small("llama3_bf16_sharded"), "--ids",
                                          "1,2,3,4,5,6,7,8,9,10,11,12"};
  EXPECT_NEAR(answer(1, words)["perplexity"], answer(2, words)["perplexity"], 1e-3);
}

TEST_F(TensorParallelTest, BenchesAShapeWithoutWeights) {
  const json made = answer(2, {"bench", "model", small("llama_fp32") + "/config.json",
                               "--random-weights", "-p", "8", "-n", "4", "-r", "1"});
  EXPECT_EQ(made["tests"].size(), 2u) << made.dump();
}

// Requests at once, of which each has its own sampling; their steps have any mix of sequences.
TEST_F(TensorParallelTest, ServesWhatOneRankGenerates) {
  make_model();
  const json alone =
      answer(1, {"generate", "model", "abc", "--max-tokens", "24", "--temperature", "0"});
  const int64_t port = runtime::free_port();
  const pid_t child =
      start({"serve", "model", "--port", std::to_string(port), "--max-sequences", "2", "--device",
             "cpu", "--chat-template", "chatml", "--tensor-parallel", "3"},
            {.environment = kOnAnyMachine});
  await("Ready");
  const auto body = [](double temperature) {
    return json{{"prompt", "abc"}, {"max_tokens", 24}, {"temperature", temperature}, {"seed", 7}}
        .dump();
  };
  for (int round = 0; round < 2; ++round) {
    http::HttpClient greedy(port), sampled(port);
    sampled.send("POST", "/v1/completions", body(1));
    const http::Response made = greedy.post("/v1/completions", body(0));
    ASSERT_EQ(made.status, 200) << made.body;
    EXPECT_EQ(json::parse(made.body)["choices"][0]["text"], alone["text"]);
    // Longer than between two signs of life of a server that has nothing to do.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  ::kill(child, SIGTERM);
  finish(child);  // mpirun passes the signal on, and gives its ranks a second
}

TEST_F(TensorParallelTest, OtherNumbersOfRanksAreUsageErrors) {
  const Output three = share(3, {"logits", small("llama_fp32"), "--ids", "1"});
  EXPECT_EQ(three.code, 2);
  EXPECT_NE(three.err.find("expected 1, 2, 4 ranks, which divide 4 heads"), std::string::npos)
      << three.err;
  EXPECT_EQ(three.out, "");
  EXPECT_EQ(share(-1, {"logits", small("llama_fp32"), "--ids", "1"}).code, 2);
}

}  // namespace
}  // namespace ridge::apps
