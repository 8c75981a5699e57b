// SPDX-License-Identifier: Apache-2.0
// The arena's guarantees: alignment, zeros, and an Error instead of a crash.
#include "base/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ridge {
namespace {

TEST(Arena, IsAlignedZeroedAndWritable) {
  Arena arena(1000003, "test");
  ASSERT_EQ(arena.bytes(), 1000003);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % kAlignmentBytes, 0u);
  EXPECT_TRUE(std::all_of(arena.data(), arena.data() + arena.bytes(),
                          [](std::byte b) { return b == std::byte{0}; }));
  arena.data()[arena.bytes() - 1] = std::byte{7};
  EXPECT_EQ(arena.data()[arena.bytes() - 1], std::byte{7});
}

TEST(Arena, OfNothingIsEmpty) {
  EXPECT_EQ(Arena().data(), nullptr);
  EXPECT_EQ(Arena(0, "test").data(), nullptr);
}

TEST(Arena, MovesItsBlock) {
  Arena first(64, "test");
  std::byte* data = first.data();
  Arena second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.bytes(), 64);
}

TEST(Arena, NamesWhatDoesNotFit) {
  try {
    Arena arena(INT64_MAX - 4096, "weights");
    FAIL() << "no machine has this memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("[weights]"), std::string::npos);
  }
}

}  // namespace
}  // namespace ridge
