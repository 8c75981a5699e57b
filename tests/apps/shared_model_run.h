// SPDX-License-Identifier: Apache-2.0
// Runs commands of inference on ranks that share a model, and compares them with one process.
#pragma once

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/rank_run.h"
#include "http/http_client.h"
#include "runtime/rank_launcher.h"
#include "test_paths.h"

namespace ridge::apps {

using nlohmann::json;

// How many ranks share each layer, and how many stages the layers have.
struct SharedLayout {
  SharedLayout(int ranks, int stages = 1) : tensor(ranks), pipeline(stages) {}
  int tensor, pipeline;
};

class SharedModelTest : public RankTest {
 protected:
  static std::string small(const std::string& name) {
    return source_file("tests/data/models/" + name);
  }

  Output share(const SharedLayout& layout, std::vector<std::string> words) const {
    words.insert(words.end(),
                 {"--device", "cpu", "--json", "--tensor-parallel", std::to_string(layout.tensor),
                  "--pipeline-parallel", std::to_string(layout.pipeline)});
    // Processes may tune a GEMM to different kernels, whose sums have different orders.
    words.insert(words.end(), {"--pass", "-tune_gemm"});
    return run(words, {.environment = kOnAnyMachine});
  }
  json answer(const SharedLayout& layout, const std::vector<std::string>& words) const {
    const Output output = share(layout, words);
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out, nullptr, false);
  }

  // The ranks' sums have another order than those of one process.
  void expect_same_logits(const SharedLayout& layout, const std::vector<std::string>& words) const {
    const json one = answer(1, words), all = answer(layout, words);
    ASSERT_EQ(one["top"].size(), all["top"].size());
    EXPECT_NEAR(one["logsumexp"], all["logsumexp"], 1e-4);
    for (size_t i = 0; i < one["top"].size(); ++i) {
      EXPECT_EQ(one["top"][i][0], all["top"][i][0]);
      EXPECT_NEAR(one["top"][i][1], all["top"][i][1], 1e-4);
    }
  }

  // Requests at once, of which each has its own sampling and these fields; their steps have any mix
  // of sequences.
  void expect_serves_the_same(const SharedLayout& layout, const json& fields) {
    const json alone =
        answer(1, {"generate", "model", "abc", "--max-tokens", "24", "--temperature", "0"});
    const int64_t port = runtime::free_port();
    const pid_t child = start(
        {"serve", "model", "--port", std::to_string(port), "--max-sequences", "2", "--device",
         "cpu", "--chat-template", "chatml", "--tensor-parallel", std::to_string(layout.tensor),
         "--pipeline-parallel", std::to_string(layout.pipeline)},
        {.environment = kOnAnyMachine});
    await("Ready");
    const auto body = [&](double temperature) {
      json request = {
          {"prompt", "abc"}, {"max_tokens", 24}, {"temperature", temperature}, {"seed", 7}};
      request.update(fields);
      return request.dump();
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
    const Output ended =
        finish(child);  // mpirun passes the signal on to all, and gives them a second
    EXPECT_EQ(ended.err.find("Finishing"), ended.err.rfind("Finishing")) << ended.err;
  }

  // A model of random weights with the heads of SmolLM2 and a tokenizer.
  void make_model(int layers = 2) const {
    const json shape = {{"model_type", "llama"},       {"vocab_size", 300},
                        {"hidden_size", 288},          {"num_hidden_layers", layers},
                        {"num_attention_heads", 9},    {"num_key_value_heads", 3},
                        {"intermediate_size", 768},    {"max_position_embeddings", 64},
                        {"tie_word_embeddings", false}};
    files::write_plain(folder_ / "shape.json", shape.dump());
    ASSERT_EQ(run({"convert", "--random-weights", "shape.json", "model"}).code, 0);
    std::string text;
    for (int i = 0; i < 4000; ++i) text += i % 5 == 4 ? ' ' : static_cast<char>('a' + i * i % 23);
    files::write_plain(folder_ / "text.txt", text);
    ASSERT_EQ(run({"tokenizer", "train", "text.txt", "--vocab-size", "300", "--out", "words"}).code,
              0);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy(folder_ / "words" / file, folder_ / "model" / file);
  }
};

}  // namespace ridge::apps
