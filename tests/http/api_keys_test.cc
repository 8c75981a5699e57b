// SPDX-License-Identifier: Apache-2.0
// Key files, and which headers open the door.
#include "http/api_keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "files/scratch.h"

namespace ridge::http {
namespace {

TEST(ApiKeys, AcceptsEachKeyOfItsFile) {
  const files::ScratchFolder folder;
  files::write_plain(folder / "keys", "# for tests\nsk-12345678\r\n\nsk-another-one\n");
  const ApiKeys keys = ApiKeys::read(folder / "keys");
  EXPECT_TRUE(keys.accept("Bearer sk-12345678"));
  EXPECT_TRUE(keys.accept("Bearer sk-another-one"));
  for (const char* wrong :
       {"", "Bearer ", "sk-12345678", "bearer sk-12345678", "Bearer sk-1234567",
        "Bearer sk-123456789", "Bearer sk-12345678sk-12345678", "Bearer # for tests"})
    EXPECT_FALSE(keys.accept(wrong)) << wrong;
}

TEST(ApiKeys, KnowsTheTenantOfEachKey) {
  const files::ScratchFolder folder;
  files::write_plain(folder / "keys",
                     "sk-12345678 blue\nsk-common1 \r\nsk-87654321 red  \r\nsk-abcdefgh blue\n"
                     "sk-12345678 blue\n");
  const ApiKeys keys = ApiKeys::read(folder / "keys");
  const auto blue = keys.tenant("Bearer sk-12345678"), red = keys.tenant("Bearer sk-87654321");
  EXPECT_EQ(keys.tenant("Bearer sk-common1"), 0u);
  EXPECT_GT(blue, 0u);
  EXPECT_GT(red, 0u);
  EXPECT_NE(blue, red);
  EXPECT_EQ(keys.tenant("Bearer sk-abcdefgh"), blue);
  EXPECT_FALSE(keys.tenant("Bearer sk-12345678 blue").has_value());
}

TEST(ApiKeys, RefusesFilesWithoutGoodKeys) {
  const files::ScratchFolder folder;
  for (const char* text : {"# nothing\n", "short\n", "sk 12345678\n", "sk-12345678 two words\n",
                           "sk-\xc3\xa4-12345678\n", "sk-12345678 red\nsk-12345678 blue\n",
                           "sk-12345678\nsk-87654321\nsk-12345678 blue\n"}) {
    files::write_plain(folder / "keys", text);
    EXPECT_THROW(ApiKeys::read(folder / "keys"), Error) << text;
  }
  EXPECT_THROW(ApiKeys::read(folder / "missing"), Error);
}

TEST(ApiKeys, ManyAreReadInLinearTime) {
  const files::ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += fmt::format("sk-of-client-{} tenant-{}\n", i, i);
  files::write_plain(folder / "keys", text);
  const auto begin = std::chrono::steady_clock::now();
  const ApiKeys keys = ApiKeys::read(folder / "keys");
  for (int i = 0; i < 100'000; i += 10)
    EXPECT_EQ(keys.tenant(fmt::format("Bearer sk-of-client-{}", i)), i + 1);
  EXPECT_FALSE(keys.accept("Bearer sk-of-client-100000"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

}  // namespace
}  // namespace ridge::http
