// SPDX-License-Identifier: Apache-2.0
// Decoding a token allocates nothing.
#include <gtest/gtest.h>

#include "serve/allocations.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

// The number of allocations in `count` steps, after some steps that may set things up.
int64_t allocations_of_steps(Session& session, std::span<const Prompt> prompts, int count) {
  std::vector<int32_t> tokens = session.start(prompts);
  std::vector<int64_t> slots;
  for (const Prompt& prompt : prompts) slots.push_back(prompt.slot);
  for (int i = 0; i < 4; ++i) session.step(slots, tokens);
  int64_t before = allocations;
  for (int i = 0; i < count; ++i) session.step(slots, tokens);
  return allocations - before;
}

class DecodeAllocation : public testing::TestWithParam<const char*> {};

TEST_P(DecodeAllocation, IsNone) {
  models::ModelFile file = models::ModelFile::open(data_folder() + GetParam());
  for (int64_t slots : {1, 3}) {
    SessionOptions options = at_level("compiled", 128);
    options.slots = slots;
    Session session(file, options, cpu_backend());
    std::vector<int32_t> ids{1, 2, 3, 4, 5};
    std::vector<Prompt> prompts;
    for (int64_t slot = 0; slot < slots; ++slot)
      prompts.push_back({slot, ids, {.temperature = 0.8, .top_k = 5}});
    int64_t owned = session.runner().owned_bytes();
    EXPECT_EQ(allocations_of_steps(session, prompts, 40), 0) << slots << " sequences";
    EXPECT_GE(session.runner().owned_bytes(), owned);
    owned = session.runner().owned_bytes();
    EXPECT_EQ(allocations_of_steps(session, prompts, 10), 0) << slots << " sequences, again";
    EXPECT_EQ(session.runner().owned_bytes(), owned);
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         DecodeAllocation,
                         testing::Values("llama_fp32",
                                         "llama3_bf16_sharded",
                                         "gemma3_bf16",
                                         "qwen2_fp32",
                                         "qwen3_bf16"));

TEST(DecodeAllocationPublished, IsNone) {
  for (const char* name : {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"}) {
    std::string path = published_model(name);
    if (path.empty()) GTEST_SKIP() << name << " is not on this machine: make models fetches it";
    models::ModelFile file = models::ModelFile::open(path);
    Session session(file, at_level("compiled", 64), cpu_backend());
    std::vector<int32_t> ids{1, 2, 3};
    Prompt prompt{0, ids, {}};
    EXPECT_EQ(allocations_of_steps(session, {&prompt, 1}, 8), 0) << name;
  }
}

}  // namespace
}  // namespace ridge::serve
