// SPDX-License-Identifier: Apache-2.0
// Key files, and which headers open the door.
#include "http/api_keys.h"

#include <gtest/gtest.h>

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

TEST(ApiKeys, RefusesFilesWithoutGoodKeys) {
  const files::ScratchFolder folder;
  for (const char* text : {"# nothing\n", "short\n", "sk 12345678\n", "sk-\xc3\xa4-12345678\n"}) {
    files::write_plain(folder / "keys", text);
    EXPECT_THROW(ApiKeys::read(folder / "keys"), Error) << text;
  }
  EXPECT_THROW(ApiKeys::read(folder / "missing"), Error);
}

}  // namespace
}  // namespace ridge::http
