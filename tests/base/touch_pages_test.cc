// SPDX-License-Identifier: Apache-2.0
// Pages that were touched are resident, and what was written to them stays.
#include "base/touch_pages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/arena.h"
#include "base/process_memory.h"

namespace ridge {
namespace {

TEST(TouchPages, MakesMemoryResidentAndKeepsItsContent) {
  const Arena arena((int64_t{9} << 20) + 5, "test");
  const std::span<std::byte> all(arena.data(), static_cast<size_t>(arena.bytes()));
  all.back() = std::byte{7};
  const int64_t before = resident_bytes(all);
  touch_pages(all);
  if (before > 0) {
    EXPECT_LT(before, arena.bytes());
    EXPECT_GE(resident_bytes(all), arena.bytes());
  }
  EXPECT_EQ(all.back(), std::byte{7});
  EXPECT_TRUE(
      std::all_of(all.begin(), all.end() - 1, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(TouchPages, OfNothingDoesNothing) { touch_pages({}); }

}  // namespace
}  // namespace ridge
