// SPDX-License-Identifier: Apache-2.0
// Every layout of ranks on CPUs over 50 steps: the losses of one process, the same bits in every
// run, and a training that goes on in another layout than the one that saved it.

#include "apps/checkpoint_case.h"
#include "apps/logged_losses.h"
#include "apps/rank_run.h"

namespace ridge::apps {
namespace {

struct LayoutOptions {
  const char* name;
  int batch;  // each copy of the model has so many sequences; a step has 4
  std::vector<std::string> words;
};

const LayoutOptions kOne = {"One", 4, {}};

// Two stages with so many micro-batches.
std::vector<std::string> pipeline(int micro_batches,
                                  const char* schedule,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"--pipeline-parallel", "2",
                                    "--micro-batches",     std::to_string(micro_batches),
                                    "--pipeline-schedule", schedule};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<LayoutOptions> layouts() {
  return {
      {"Data", 2, {"--data-parallel", "2"}},
      {"Data4", 1, {"--data-parallel", "4"}},
      {"Zero1", 2, {"--data-parallel", "2", "--zero", "1"}},
      {"Zero2", 2, {"--data-parallel", "2", "--zero", "2"}},
      {"Zero3", 2, {"--data-parallel", "2", "--zero", "3"}},
      {"Tensor", 4, {"--tensor-parallel", "2"}},
      {"Tensor4", 4, {"--tensor-parallel", "4"}},
      {"Sequence", 4, {"--tensor-parallel", "2", "--sequence-parallel"}},
      {"DataTensor", 2, {"--data-parallel", "2", "--tensor-parallel", "2"}},
      {"Zero1Tensor", 2, {"--data-parallel", "2", "--tensor-parallel", "2", "--zero", "1"}},
      {"Zero3Sequence",
       2,
       {"--data-parallel", "2", "--tensor-parallel", "2", "--zero", "3", "--sequence-parallel"}},
      {"Pipeline", 1, pipeline(4, "1f1b")},
      {"ZeroBubble", 1, pipeline(4, "zero-bubble")},
      {"DataPipeline", 1, pipeline(2, "1f1b", {"--data-parallel", "2", "--zero", "1"})},
      {"Zero2Pipeline", 1, pipeline(2, "zero-bubble", {"--data-parallel", "2", "--zero", "2"})},
      {"Zero3Pipeline", 1, pipeline(2, "1f1b", {"--data-parallel", "2", "--zero", "3"})},
      {"SequencePipeline", 1,
       pipeline(4, "1f1b", {"--tensor-parallel", "2", "--sequence-parallel"})},
      {"TensorPipeline", 1, pipeline(4, "zero-bubble", {"--tensor-parallel", "2"})},
      {"DataTensorPipeline", 1,
       pipeline(2, "1f1b", {"--data-parallel", "2", "--tensor-parallel", "2"})}};
}

class LayoutsSlowTest : public RankTest {
 protected:
  // "t", a data set of a vocabulary that 4 ranks divide.
  void SetUp() override {
    RankTest::SetUp();
    if (IsSkipped()) return;
    std::string ids;
    for (int i = 0; i < 30'000; ++i) ids += {static_cast<char>(1 + i * i % 251), '\0'};
    files::write_plain(folder_ / "ids.bin", ids);
    files::write_plain(folder_ / "config.json", R"({"model_type": "llama", "vocab_size": 256,
      "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
      "intermediate_size": 128, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "rope_theta": 10000, "tie_word_embeddings": false, "hidden_act": "silu"})");
  }

  // The losses by step with all digits, from the log.
  std::vector<double> train(const LayoutOptions& layout, std::vector<std::string> more) const {
    std::vector<std::string> words = {
        "train",    "--config",  "config.json", "--data",       "ids.bin",
        "--device", "cpu",       "--level",     "kernels",      "--lr",
        "0.003",    "--seq-len", "32",          "--clip",       "0.5",
        "--quiet",  "--log-dir", "log",         "--batch-size", std::to_string(layout.batch)};
    words.insert(words.end(), layout.words.begin(), layout.words.end());
    words.insert(words.end(), more.begin(), more.end());
    std::filesystem::remove_all(folder_ / "log");
    const Output output = run(words, {.environment = kOnAnyMachine});
    EXPECT_EQ(output.code, 0) << layout.name << "\n" << output.err;
    return logged_losses(folder_ / "log");
  }

  static void expect_same(const std::vector<double>& want,
                          const std::vector<double>& got,
                          const std::string& what) {
    ASSERT_EQ(want.size(), got.size()) << what;
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(want[i], got[i], 1e-5 * want[0]) << what << ", step " << i;
  }
};

TEST_F(LayoutsSlowTest, FiftyStepsOfEachAreThoseOfOneProcess) {
  const std::vector<double> one = train(kOne, {"--steps", "50"});
  ASSERT_EQ(one.size(), 50u);
  EXPECT_LT(one.back(), one.front());
  for (const LayoutOptions& each : layouts()) {
    const std::string name = each.name;
    expect_same(one, train(each, {"--steps", "50", "--save", name + "a"}), name);
    train(each, {"--steps", "50", "--save", name + "b"});
    const std::string first = files::contents(folder_ / (name + "a") / "model.safetensors");
    EXPECT_FALSE(first.empty()) << name;
    EXPECT_TRUE(first == files::contents(folder_ / (name + "b") / "model.safetensors")) << name;
  }
}

// 20 steps in one layout and 30 in the next of the list.
TEST_F(LayoutsSlowTest, GoOnInEachOther) {
  const std::vector<double> one = train(kOne, {"--steps", "50"});
  std::vector<LayoutOptions> all = layouts();
  all.push_back(kOne);
  for (size_t i = 0; i < all.size(); ++i) {
    const LayoutOptions &from = all[i], &to = all[(i + 1) % all.size()];
    const std::string what = fmt::format("{} to {}", from.name, to.name);
    std::filesystem::remove_all(folder_ / "c");
    train(from, {"--steps", "20", "--checkpoints", "c", "--save-every", "20"});
    const std::vector<double> rest = train(to, {"--steps", "50", "--checkpoints", "c", "--resume"});
    expect_same({one.begin() + 20, one.end()}, rest, what);
  }
}

}  // namespace
}  // namespace ridge::apps
