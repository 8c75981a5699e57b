// SPDX-License-Identifier: Apache-2.0
// The memory of standard attention grows with the square of the length, that of flash attention
// with the length, both in the plan and in the process.
#include "bench/attention_trial.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

constexpr int64_t kAll = int64_t{1} << 40;

record::AttentionRecord planned(int64_t head_size, int64_t sequence) {
  return try_attention({1, head_size, sequence}, {}, serve::cpu_backend(), nullptr);
}

TEST(AttentionTrial, PlansSquareAgainstLine) {
  for (int64_t head_size : {64, 128})
    for (int64_t sequence : {16384, 32768}) {  // long enough that the threads' tiles are negligible
      record::AttentionRecord once = planned(head_size, sequence),
                              twice = planned(head_size, 2 * sequence);
      EXPECT_FALSE(once.standard.skipped.empty());
      // The scores are stored at least once.
      EXPECT_GE(once.standard.arena_bytes, 4 * sequence * sequence);
      EXPECT_NEAR(static_cast<double>(twice.standard.arena_bytes) /
                      static_cast<double>(once.standard.arena_bytes),
                  4, 0.3);
      EXPECT_NEAR(static_cast<double>(twice.flash.owned_bytes) /
                      static_cast<double>(once.flash.owned_bytes),
                  2, 0.2);
      EXPECT_LT(once.flash.arena_bytes, once.standard.arena_bytes / 4);
      EXPECT_GT(once.standard.launches, once.flash.launches);
    }
}

TEST(AttentionTrial, MeasuresWhatThePlanSays) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's shadows and freed memory that it keeps are resident too";
#endif
  auto run = [](int64_t sequence, int64_t memory) {
    return try_attention({1, 64, sequence}, {memory, 0, 1}, serve::cpu_backend(), nullptr);
  };
  run(256, kAll);  // lazy loading happens here
  // Long enough that the process's other memory is negligible.
  record::AttentionRecord once = run(2048, kAll), twice = run(4096, kAll);
  if (once.standard.measured_bytes == 0)
    GTEST_SKIP() << "the system does not reset the peak of a process's memory";
  double standard = static_cast<double>(twice.standard.measured_bytes) /
                    static_cast<double>(once.standard.measured_bytes);
  EXPECT_GT(standard, 3.2);
  EXPECT_LT(standard, 4.8);
  EXPECT_NEAR(static_cast<double>(twice.standard.measured_bytes),
              static_cast<double>(twice.standard.owned_bytes),
              0.15 * static_cast<double>(twice.standard.owned_bytes));
  constexpr int64_t kLinear = int64_t{64} << 20;  // too little for the matrix, enough for the rest
  once = run(8192, kLinear), twice = run(16384, kLinear);
  EXPECT_FALSE(once.standard.skipped.empty());
  EXPECT_TRUE(once.flash.skipped.empty());
  double flash = static_cast<double>(twice.flash.measured_bytes) /
                 static_cast<double>(once.flash.measured_bytes);
  EXPECT_GT(flash, 1.5);
  EXPECT_LT(flash, 2.5);
}

TEST(AttentionTrial, KnowsWhereStandardRunsOut) {
  constexpr int64_t kMemory = int64_t{1} << 30;
  record::AttentionReach reach = standard_reach({1, 64, 1}, kMemory, serve::cpu_backend());
  EXPECT_LE(planned(64, reach.sequence).standard.owned_bytes, kMemory);
  EXPECT_GT(planned(64, reach.sequence + 1).standard.owned_bytes, kMemory);
}

// A form that does not run says why: memory first, then time.
TEST(AttentionTrial, SkipsWhatTheLimitsForbid) {
  const cost::Ceilings slow = cost::made_up_ceilings({{1 << 30, 1e-3, 1e-3}}, 1e-3);
  const auto skipped = [&](const AttentionLimits& limits) {
    return try_attention({1, 64, 32}, limits, serve::cpu_backend(), &slow).flash.skipped;
  };
  EXPECT_EQ(skipped({kAll, 0, 1}), "");
  EXPECT_EQ(skipped({1000, 0, 1}).substr(0, 6), "needs ");
  EXPECT_TRUE(skipped({1000, 0, 1}).ends_with(", limit 1000 B"));
  EXPECT_EQ(skipped({kAll, 1, 1}).substr(0, 11), "would take ");
  EXPECT_EQ(skipped({kAll, 1e18, 1}), "");
}

}  // namespace
}  // namespace ridge::bench
