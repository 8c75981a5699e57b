// SPDX-License-Identifier: Apache-2.0
// The names and units of figures, which follow from their keys.
#include "record/figures.h"

#include <gtest/gtest.h>

namespace ridge::record {
namespace {

TEST(Figures, HaveLabelsOfTheirKeys) {
  EXPECT_EQ(label("time_ns"), "time");
  EXPECT_EQ(label("flops_per_s"), "FLOPs/s");
  EXPECT_EQ(label("flops_per_byte"), "FLOPs/B");
  EXPECT_EQ(label("tokens_per_gpu_hour"), "tokens/gpu hour");
  EXPECT_EQ(label("per_token_ns"), "per token");
  EXPECT_EQ(label("model_macs"), "model MACs");
  EXPECT_EQ(label("ttft_median_ns"), "TTFT median");
  EXPECT_EQ(label("tpot_ns"), "TPOT");
  EXPECT_EQ(label("mfu"), "MFU");
  EXPECT_EQ(label("loss"), "loss");
  EXPECT_EQ(label("_ns"), "");
  EXPECT_EQ(label("returns"), "returns");
  EXPECT_EQ(label("read_bytes"), "read bytes");
}

TEST(Figures, HaveUnitsOfTheirKeys) {
  EXPECT_EQ(unit_of("bytes_per_s"), "B/s");
  EXPECT_EQ(unit_of("peak_flops_per_s"), "FLOP/s");
  EXPECT_EQ(unit_of("tokens_per_s"), "1/s");
  EXPECT_EQ(unit_of("flops_per_byte"), "FLOP/B");
  EXPECT_EQ(unit_of("wall_ns"), "ns");
  EXPECT_EQ(unit_of("read_bytes"), "B");
  EXPECT_EQ(unit_of("flops"), "FLOP");
  EXPECT_EQ(unit_of("model_macs"), "MAC");
  EXPECT_EQ(unit_of("ns"), "");
  EXPECT_EQ(unit_of("layers"), "");
}

TEST(Figures, MayHaveAUnitOfTheirOwn) {
  const Figure plain("wall_ns"), own("mfu", "share", "A sentence.", 3);
  EXPECT_EQ(plain.unit, "ns");
  EXPECT_EQ(plain.says, "");
  EXPECT_EQ(plain.since, 1);
  EXPECT_EQ(own.unit, "share");
  EXPECT_EQ(own.says, "A sentence.");
  EXPECT_EQ(own.since, 3);
}

}  // namespace
}  // namespace ridge::record
