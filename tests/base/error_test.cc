// SPDX-License-Identifier: Apache-2.0
// Errors have an exit code and a text; a failed check includes its location.
#include "base/error.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(Error, CarriesTextAndExitCode) {
  Error error = usage_error("[rope] expected an even head size, got {}", 63);
  EXPECT_STREQ(error.what(), "[rope] expected an even head size, got 63");
  EXPECT_EQ(static_cast<int>(error.code()), 2);
  EXPECT_EQ(static_cast<int>(runtime_error("x").code()), 1);
  EXPECT_EQ(static_cast<int>(file_error("x").code()), 3);
  EXPECT_EQ(static_cast<int>(memory_error("x").code()), 4);
  EXPECT_EQ(static_cast<int>(Error("x", ExitCode::kDevice).code()), 5);
}

TEST(Check, ThrowsAnInternalErrorThatSaysWhere) {
  RIDGE_CHECK(1 + 1 == 2, "arithmetic");
  try {
    RIDGE_CHECK(1 + 1 == 3, "node {}", 17);
    FAIL() << "the check did not fail";
  } catch (const InternalError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("error_test.cc:"), std::string::npos) << text;
    EXPECT_NE(text.find("1 + 1 == 3"), std::string::npos) << text;
    EXPECT_NE(text.find("node 17"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ridge
