// SPDX-License-Identifier: Apache-2.0
// The known name that is suggested for a mistyped one.
#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace ridge {
namespace {

const std::vector<std::string> kNames = {"lab", "train", "rms_norm", "rope", "flash_attention"};

TEST(NearestName, IsTheOneWithFewestChanges) {
  EXPECT_EQ(nearest_name("labb", kNames), "lab");
  EXPECT_EQ(nearest_name("trian", kNames), "train");
  EXPECT_EQ(nearest_name("tran", kNames), "train");
  EXPECT_EQ(nearest_name("rmsnorm", kNames), "rms_norm");
  EXPECT_EQ(nearest_name("Flash-Atention", kNames), "flash_attention");
  EXPECT_EQ(did_you_mean("ropes", kNames), " (did you mean rope?)");
}

TEST(NearestName, IsNoneWhereNothingIsNear) {
  EXPECT_EQ(nearest_name("foo", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'r'), kNames), "");
  EXPECT_EQ(nearest_name("lab", {}), "");
  EXPECT_EQ(did_you_mean("foo", kNames), "");
}

}  // namespace
}  // namespace ridge
