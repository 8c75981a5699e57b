// SPDX-License-Identifier: Apache-2.0
// Tests for texts that are split, and for lists of sizes.
#include "base/split.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge {
namespace {

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("a,,b"), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split(""), (std::vector<std::string>{""}));
}

TEST(ParseSizes, RefusesWhatIsNoSize) {
  EXPECT_EQ(parse_sizes("8,16", "batch-size"), (std::vector<int64_t>{8, 16}));
  for (const char* text : {"", "0", "-1", "8,", "8, 16", "8x", "99999999999999999999"})
    EXPECT_THROW(parse_sizes(text, "batch-size"), Error) << text;
}

}  // namespace
}  // namespace ridge
