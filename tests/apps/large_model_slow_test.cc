// SPDX-License-Identifier: Apache-2.0
// The memory of a model of some 300 MB: while it is made, and while it runs.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

class LargeModel : public ProgramTest {
 protected:
  // Makes a model of random weights; returns the peak of memory meanwhile.
  int64_t make(const std::string& name, int layers, int hidden) const {
    const json shape = {{"model_type", "llama"},         {"vocab_size", 8192},
                        {"hidden_size", hidden},         {"num_hidden_layers", layers},
                        {"num_attention_heads", 16},     {"intermediate_size", 11 * hidden / 4},
                        {"max_position_embeddings", 256}};
    files::write_plain(folder_ / "shape.json", shape.dump());
    const Output made = run({"convert", "--random-weights", "shape.json", name, "--type", "q4_k"});
    EXPECT_EQ(made.code, 0) << made.err;
    return made.peak_bytes;
  }
  // A prompt that fills the context, so that the whole cache is touched.
  Output run_model(const std::string& name) const {
    std::string ids = "1";
    for (int i = 1; i < 256; ++i) ids += ",1";
    return run(
        {"logits", name, "--ids", ids, "--chunk", "32", "--device", "cpu", "--threads", "2"});
  }
};

// The small model's run shows what the program takes without a model.
TEST_F(LargeModel, TakesTheFileTheCacheAndFivePercent) {
  const int64_t least = make("small.gguf", 1, 256), made = make("large.gguf", 10, 2048);
  // One tensor at a time, here the output matrix of 14 MB, and buffers of the threads.
  EXPECT_LT(made - least, 32 << 20);
  const json model =
      json::parse(run({"inspect", "large.gguf", "--json", "--context", "256"}).out, nullptr, false);
  const int64_t file_bytes =
                    static_cast<int64_t>(std::filesystem::file_size(folder_ / "large.gguf")),
                planned_bytes = model["memory"][0]["total_bytes"];
  EXPECT_GT(file_bytes, 250 << 20);
  EXPECT_NEAR(static_cast<double>(planned_bytes),
              static_cast<double>(file_bytes) + 2.0 * 10 * 256 * 2048 * 4, 1e6);
  const Output small = run_model("small.gguf"), large = run_model("large.gguf");
  ASSERT_EQ(small.code, 0) << small.err;
  ASSERT_EQ(large.code, 0) << large.err;
  EXPECT_LT(static_cast<double>(large.peak_bytes - small.peak_bytes),
            1.05 * static_cast<double>(planned_bytes));
}

}  // namespace
}  // namespace ridge::apps
