// SPDX-License-Identifier: Apache-2.0
// Parts are announced once, in order, and a bounded distance before they are read.
#include "runtime/read_ahead.h"

#include <gtest/gtest.h>

#include <thread>

namespace ridge::runtime {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Spans of memory that nobody touches.
std::span<const std::byte> part(size_t begin_mib, size_t mib) {
  return {reinterpret_cast<const std::byte*>(uintptr_t{1} << 40) + begin_mib * kMiB, mib * kMiB};
}

// Collects what is announced, which must continue where the last announcement ended.
struct Announced {
  ReadAhead::Announce listener() {
    return [this](std::span<const std::byte> piece) {
      EXPECT_TRUE(end == nullptr || end == piece.data());
      end = piece.data() + piece.size();
      bytes += std::ssize(piece);
    };
  }
  const std::byte* end = nullptr;
  int64_t bytes = 0;
};

TEST(ReadAhead, StaysAheadOfTheReader) {
  Announced announced;
  ReadAhead ahead({part(0, 3), part(3, 0), part(3, 700), part(703, 20)}, announced.listener());
  const int64_t all = 723 * kMiB, piece = 8 * kMiB;
  int64_t read = 0;
  while (read < all) {
    EXPECT_GE(announced.bytes, std::min(all, read + ReadAhead::kAheadBytes));
    EXPECT_LE(announced.bytes, read + ReadAhead::kAheadBytes + piece);
    ahead.advance(kMiB);
    read += kMiB;
  }
  EXPECT_EQ(announced.bytes, all);
  EXPECT_EQ(announced.end, part(723, 0).data());
}

TEST(ReadAhead, ServesManyThreads) {
  Announced announced;
  ReadAhead ahead({part(0, 1000)}, announced.listener());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i) ahead.advance(kMiB);
    });
  for (std::thread& thread : threads) thread.join();
  ahead.advance(0);
  EXPECT_EQ(announced.bytes, static_cast<int64_t>(1000 * kMiB));
}

TEST(ReadAhead, TakesNoParts) {
  Announced announced;
  ReadAhead ahead({}, announced.listener());
  ahead.advance(5);
  EXPECT_EQ(announced.bytes, 0);
}

}  // namespace
}  // namespace ridge::runtime
