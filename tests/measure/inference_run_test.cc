// SPDX-License-Identifier: Apache-2.0
// Measured inference: what the records count, and that a token has the same logits with and without
// the cache. Not the times.
#include "measure/inference_run.h"

#include <gtest/gtest.h>

#include "serve/real_model.h"

namespace ridge::measure {
namespace {

class InferenceRunTest : public testing::Test {
 protected:
  InferenceRunTest() {
    e_.selection = passes::Selection("compiled", "-tune_gemm");
    e_.length = 12;
    e_.repeats = {.least = 2, .most = 3, .budget_ns = 1};
  }

  models::ModelFile file_ = models::ModelFile::open(serve::data_folder() + "llama_fp32");
  InferenceExperiment e_;
};

TEST_F(InferenceRunTest, ATokenHasTheSameLogitsWithAndWithoutTheCache) {
  const auto gain = measure_cache_gain(file_, e_, serve::cpu_backend());
  ASSERT_TRUE(gain);
  EXPECT_EQ(gain->context, 12);
  EXPECT_GT(gain->logits_difference, 0);  // the sums have another order
  EXPECT_LT(gain->logits_difference, 1e-4);
  EXPECT_GE(gain->with.count, 3);
  EXPECT_EQ(gain->without.count, gain->with.count);
  EXPECT_GE(gain->cache_bytes, models::seen_bytes(file_.config(), 12, DType::kF32));
}

// Each sequence of the batch has a prompt of its own.
TEST_F(InferenceRunTest, PhasesCountAllSequences) {
  e_.batch = 3;
  const auto made = measure_phases(file_, e_, serve::cpu_backend(), nullptr);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->prefill.setting.tokens(), 3 * 12);
  EXPECT_EQ(made->decode.setting.tokens(), 3);
  ASSERT_EQ(made->prefill.chosen.size(), 3u);
  serve::Session alone(file_, serve::session_options(e_, e_.length), serve::cpu_backend());
  for (int64_t slot = 0; slot < 3; ++slot) {
    const std::vector<int32_t> ids =
        random_ids(12, file_.config().vocabulary, static_cast<uint32_t>(slot) + 1);
    const serve::Prompt prompt{slot, ids, {}};
    EXPECT_EQ(made->prefill.chosen[static_cast<size_t>(slot)], alone.start({&prompt, 1})[0]);
  }
  EXPECT_GT(made->prefill.executed.macs, 3 * made->decode.executed.macs);
}

TEST_F(InferenceRunTest, AGenerationHasAStepForEachTokenButTheFirst) {
  e_.batch = 2;
  const auto made = measure_latency(file_, e_, 5, serve::cpu_backend());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->tpot.count, 4);
  EXPECT_LE(made->ttft_ns, made->wall_ns);
}

TEST_F(InferenceRunTest, WhatIsStoppedHasNoRecord) {
  e_.is_stopped = [] { return true; };
  EXPECT_FALSE(measure_cache_gain(file_, e_, serve::cpu_backend()));
  EXPECT_FALSE(measure_phases(file_, e_, serve::cpu_backend(), nullptr));
  EXPECT_FALSE(measure_latency(file_, e_, 5, serve::cpu_backend()));
}

}  // namespace
}  // namespace ridge::measure
