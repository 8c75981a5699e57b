// SPDX-License-Identifier: Apache-2.0
// Runs commands of inference on ranks that share a model, and compares them with one process.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/rank_run.h"
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
