// SPDX-License-Identifier: Apache-2.0
// Derived values of a generation, by hand.
#include "record/inference_record.h"

#include <gtest/gtest.h>

namespace ridge::record {
namespace {

// Two sequences of 33 tokens each: the first after 3 us, 32 more of 100 ns each.
TEST(LatencyRecord, DerivesFromItsTimes) {
  LatencyRecord latency;
  latency.batch = 2;
  latency.tokens = 33;
  latency.ttft_ns = 3000;
  latency.tpot.median = 100;
  EXPECT_EQ(latency.predicted_ns(), 6200);
  EXPECT_EQ(latency.error(), 0);  // without a wall time
  EXPECT_EQ(latency.tokens_per_s(), 0);
  latency.wall_ns = 8000;
  EXPECT_DOUBLE_EQ(latency.error(), -0.225);
  EXPECT_DOUBLE_EQ(latency.tokens_per_s(), 66 / 8e-6);
}

}  // namespace
}  // namespace ridge::record
