// SPDX-License-Identifier: Apache-2.0
// Converted models have the logits of the models that they were made from.
#include <gtest/gtest.h>

#include "files/scratch.h"
#include "models/convert.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

class ConvertedModel : public testing::TestWithParam<const char*> {
 protected:
  double difference(const models::ModelFile& a,
                    const models::ModelFile& b,
                    const std::vector<int32_t>& ids) {
    Session first(a, at_level("compiled", 128), cpu_backend()),
        second(b, at_level("compiled", 128), cpu_backend());
    return largest_difference(last_logits(first, ids), last_logits(second, ids));
  }
  files::ScratchFolder folder_;
};

// The formats differ in the order of rows in q and k, in the place of the 1 in 1 + w, and in
// frequencies from four numbers or from factors.
TEST_P(ConvertedModel, GivesTheSameLogits) {
  models::ModelFile model = models::ModelFile::open(data_folder() + GetParam());
  std::vector<int32_t> ids =
      ids_of(files::read_json(data_folder() + GetParam() + "/expected.json")["ids"][0]);
  models::convert_to_gguf(model, folder_ / "model.gguf", {});
  models::ModelFile gguf = models::ModelFile::open(folder_ / "model.gguf");
  EXPECT_LE(difference(model, gguf, ids), 1e-5);
  models::convert_to_folder(gguf, folder_ / "back", {});
  EXPECT_LE(difference(model, models::ModelFile::open(folder_ / "back"), ids), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All,
                         ConvertedModel,
                         testing::Values("llama_fp32",
                                         "llama3_bf16_sharded",
                                         "gemma3_bf16",
                                         "gemma3_cap_fp32",
                                         "qwen2_fp32",
                                         "qwen3_bf16"));

}  // namespace
}  // namespace ridge::serve
