// SPDX-License-Identifier: Apache-2.0
// Ids from bytes.
#include "text/token_ids.h"

#include <gtest/gtest.h>

#include <cstring>

#include "text/text_fixtures.h"

namespace ridge::text {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& ids) {
  std::vector<std::byte> bytes(ids.size() * sizeof(T));
  std::memcpy(bytes.data(), ids.data(), bytes.size());
  return bytes;
}

TEST(TokenIds, ReadsBothWidths) {
  std::vector<int32_t> out(2);
  auto narrow = bytes_of(std::vector<uint16_t>{7, 65535, 3});
  TokenIds(narrow, IdWidth::k16, 65536, "f").read(1, out);
  EXPECT_EQ(out, (std::vector<int32_t>{65535, 3}));
  auto wide = bytes_of(std::vector<uint32_t>{7, 262143, 3});
  TokenIds(wide, IdWidth::k32, 262144, "f").read(0, out);
  EXPECT_EQ(out, (std::vector<int32_t>{7, 262143}));
  EXPECT_EQ(smallest_id_width(65536), IdWidth::k16);
  EXPECT_EQ(smallest_id_width(65537), IdWidth::k32);
}

TEST(TokenIds, RefusesBadFiles) {
  std::vector<int32_t> out(3);
  auto bytes = bytes_of(std::vector<uint16_t>{1, 2, 99});
  EXPECT_NE(error_of([&] { TokenIds(bytes, IdWidth::k32, 100, "data.bin"); }).find("data.bin"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              TokenIds(bytes, IdWidth::k16, 99, "data.bin").read(0, out);
            }).find("99 at position 2"),
            std::string::npos);
  auto huge = bytes_of(std::vector<uint32_t>{1, 2, 0xFFFFFFFFu});
  EXPECT_NE(error_of([&] { TokenIds(huge, IdWidth::k32, 100, "f").read(0, out); }), "");
  EXPECT_THROW(TokenIds(bytes, IdWidth::k16, 100, "f").read(1, out), InternalError);
}

}  // namespace
}  // namespace ridge::text
