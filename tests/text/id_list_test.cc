// SPDX-License-Identifier: Apache-2.0
// Tests for lists of token ids as people and programs write them.
#include "text/id_list.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge::text {
namespace {

TEST(ParseIds, ReadsListsAndJson) {
  const std::vector<int32_t> ids{1, 2, 3};
  for (const char* text : {"1 2 3", "1,2,3", " 1, 2\n3 ", "[1, 2, 3]", "{\"ids\": [1, 2, 3]}"})
    EXPECT_EQ(parse_ids(text, "ids"), ids) << text;
  EXPECT_TRUE(parse_ids(" ", "ids").empty());
}

TEST(ParseIds, RefusesWhatIsNoId) {
  for (const char* text : {"1,", "1,,2", "-1", "x", "99999999999", "[-1]", "[1.5]", "{\"id\": 1}"})
    EXPECT_THROW(parse_ids(text, "ids"), Error) << text;
}

}  // namespace
}  // namespace ridge::text
