// SPDX-License-Identifier: Apache-2.0
// Key files, and which headers open the door.
#include "http/api_keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

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

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The CPU time to read so many keys and look up a tenth of them.
double seconds_for(int count) {
  const files::ScratchFolder folder;
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("sk-of-client-{} tenant-{}\n", i, i);
  files::write_plain(folder / "keys", text);
  const double begin = thread_seconds();
  const ApiKeys keys = ApiKeys::read(folder / "keys");
  for (int i = 0; i < count; i += 10)
    EXPECT_EQ(keys.tenant(fmt::format("Bearer sk-of-client-{}", i)), i + 1);
  EXPECT_FALSE(keys.accept(fmt::format("Bearer sk-of-client-{}", count)));
  return thread_seconds() - begin;
}

// Sixteen times the keys take up to 70 times as long where caches hold only the few. A search of
// all keys for each would take more than 256 times as long.
TEST(ApiKeys, ManyAreReadInLinearTime) {
  const double few = std::min({seconds_for(6'250), seconds_for(6'250), seconds_for(6'250)});
  EXPECT_LT(seconds_for(100'000), 160 * few);
}

}  // namespace
}  // namespace ridge::http
