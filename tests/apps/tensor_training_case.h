// SPDX-License-Identifier: Apache-2.0
// Several processes that train one model together, alone and beside others with batches of their
// own, against one process that trains it.
#pragma once

#include <cmath>
#include <functional>

#include "apps/logged_losses.h"
#include "apps/rank_run.h"
#include "test_paths.h"

namespace ridge::apps {

// How many ranks train on different sequences, how many share each model, how many have some of its
// layers each, and the micro-batches of a step.
struct Layout {
  int data = 1, tensor = 1, stages = 1, micro_batches = 1;
};

// Sums over ranks have another order than those of one.
inline void expect_same(const std::vector<double>& want,
                        const std::vector<double>& got,
                        double most = 1.1e-4) {
  ASSERT_FALSE(want.empty());
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], most) << "step " << i;
}

class TensorTrainingCase : public RankTest {
 protected:
  // Trains on 4 sequences of 32 tokens a step, and returns the losses, which have four digits.
  std::vector<double> train(const Layout& layout, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",
                                      "--device",
                                      "cpu",
                                      "--seq-len",
                                      "32",
                                      "--batch-size",
                                      std::to_string(4 / layout.data / layout.micro_batches)};
    if (layout.data > 1)
      words.insert(words.end(), {"--data-parallel", std::to_string(layout.data)});
    if (layout.tensor > 1)
      words.insert(words.end(), {"--tensor-parallel", std::to_string(layout.tensor)});
    if (layout.stages > 1)
      words.insert(words.end(), {"--pipeline-parallel", std::to_string(layout.stages)});
    if (layout.micro_batches > 1)
      words.insert(words.end(), {"--micro-batches", std::to_string(layout.micro_batches)});
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
    return logged_losses(folder_ / "log");
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

  // A layout with the options that it trains with.
  struct Way {
    Layout layout;
    std::vector<std::string> more = {};
  };
  // The ways in which checkpoints are written and read.
  static std::vector<Way> resumed_ways() {
    return {{{1, 1}},
            {{1, 4}, {"--sequence-parallel"}},
            {{2, 2}, {"--zero", "1"}},
            {{2, 1}, {"--zero", "3"}}};
  }

  // Fine-tunes a model of tests/data as one process does and in each of these ways.
  void expect_fine_tuned(const std::string& model, const std::vector<Way>& ways) const {
    expect_ways({"--model", small(model), "--data", "ids.bin", "--steps", "4", "--clip", "0.5"},
                ways);
  }
  void expect_adapted(const std::string& model, const std::vector<Way>& ways) const {
    expect_ways({"--model", small(model), "--data", "ids.bin", "--steps", "4", "--pass", "+lora",
                 "--lora-rank", "4", "--lora-targets", "q_proj,k_proj,o_proj,down_proj,gate_proj",
                 "--lr", "0.01", "--clip", "0.5"},
                ways);
  }

  // Trains four steps in each way, and goes on in each other way for which `pairs` is true.
  void expect_resumed(const std::vector<Way>& ways,
                      const std::function<bool(size_t from, size_t to)>& pairs) const {
    write_ids();
    const std::vector<double> unbroken = train_way(ways[0], "6", {"--checkpoints", "unbroken"});
    for (size_t from = 0; from < ways.size(); ++from) {
      for (const char* each : {"c", "r"}) std::filesystem::remove_all(folder_ / each);
      train_way(ways[from], "4", {"--checkpoints", "c", "--save", "r"});
      const std::string want = saved("r");
      EXPECT_FALSE(want.empty());
      for (size_t to = 0; to < ways.size(); ++to) {
        if (!pairs(from, to)) continue;
        SCOPED_TRACE(testing::Message() << "way " << from << " to way " << to);
        expect_goes_on(ways[to], want, unbroken);
      }
    }
  }

 private:
  void expect_ways(const std::vector<std::string>& words, const std::vector<Way>& ways) const {
    write_ids();
    const std::vector<double> one = train({}, words);
    for (const Way& each : ways) {
      std::vector<std::string> more = words;
      more.insert(more.end(), each.more.begin(), each.more.end());
      expect_same(one, train(each.layout, more));
    }
  }

  std::vector<double> train_way(const Way& way,
                                const char* steps,
                                std::vector<std::string> more) const {
    more.insert(more.end(), way.more.begin(), way.more.end());
    more.insert(more.end(), {"--model", small("qwen3_bf16"), "--data", "ids.bin", "--save-every",
                             "4", "--level", "kernels", "--clip", "0.5", "--steps", steps});
    return train(way.layout, more);
  }
  void expect_goes_on(const Way& way,
                      const std::string& want,
                      const std::vector<double>& unbroken) const {
    for (const char* each : {"c2", "r"}) std::filesystem::remove_all(folder_ / each);
    std::filesystem::copy(folder_ / "c", folder_ / "c2", std::filesystem::copy_options::recursive);
    // No step is left to train: the model is that of the checkpoint, byte by byte.
    train_way(way, "4", {"--checkpoints", "c2", "--resume", "--save", "r"});
    EXPECT_TRUE(want == saved("r"));
    const std::vector<double> rest = train_way(way, "6", {"--checkpoints", "c2", "--resume"});
    ASSERT_EQ(rest.size(), 2u);
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(rest[i], unbroken[4 + i], 1.1e-4);
  }
};

}  // namespace ridge::apps
