// SPDX-License-Identifier: Apache-2.0
// Tests for levels and switches as the user names them.
#include "passes/level_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge::passes {
namespace {

TEST(LevelOptions, ADtypeIsASwitch) {
  EXPECT_EQ(switch_text({}), "");
  EXPECT_EQ(switch_text({.switches = "-fuse_glu", .dtype = "bf16"}), "-fuse_glu,+autocast_bf16");
  EXPECT_EQ(switch_text({.dtype = "fp16"}), "+autocast_f16");
  EXPECT_EQ(switch_text({.tf32 = true}), "+tf32");
  EXPECT_THROW(switch_text({.dtype = "fp8"}), Error);
}

TEST(LevelOptions, ASwitchIsAddedToOthers) {
  EXPECT_EQ(with_switch("", "+tf32"), "+tf32");
  EXPECT_EQ(with_switch("+tf32", ""), "+tf32");
  EXPECT_EQ(with_switch("+tf32", "-fuse_glu"), "+tf32,-fuse_glu");
}

TEST(LevelOptions, ListsKeepTheirOrder) {
  EXPECT_EQ(parse_levels("all", "level").size(), levels().size());
  EXPECT_EQ(parse_levels("compiled,fused", "level"),
            (std::vector<std::string>{"compiled", "fused"}));
  EXPECT_THROW(parse_levels("fused,", "level"), Error);
}

}  // namespace
}  // namespace ridge::passes
