// SPDX-License-Identifier: Apache-2.0
// Mixes with SplitMix64's finalizer.
#include "train/window_order.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace ridge::train {
namespace {

constexpr int kRounds = 6;
constexpr int kShareBits = 32;

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t feistel(uint64_t value, int half_bits, uint64_t seed) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t key = mix(seed + static_cast<uint64_t>(round));
    const uint64_t next = left ^ (mix(key ^ right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t permuted(int64_t index, int64_t count, uint64_t seed) {
  RIDGE_CHECK(index >= 0 && index < count, "index {} of {}", index, count);
  const int bits = std::bit_width(static_cast<uint64_t>(count - 1));
  const int half_bits = std::max((bits + 1) / 2, 1);
  auto value = static_cast<uint64_t>(index);
  // Fewer than four steps on average, as 4^half_bits is less than 4 count (or count is 1).
  do value = feistel(value, half_bits, mix(seed));
  while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

Mixture::Mixture(std::span<const double> weights) {
  double left = 0;
  for (const double weight : weights) left += weight;
  for (const double weight : weights) {
    const double share = std::min(weight / left, 1.0);
    shares_.push_back(static_cast<uint64_t>(std::llround(std::ldexp(share, kShareBits))));
    left -= weight;
  }
  shares_.back() = uint64_t{1} << kShareBits;
}

// The first source gets place i if floor((i + 1) share) > floor(i share); the others share out what
// is left in the same way.
Mixture::Window Mixture::at(int64_t place) const {
  // The wide product of 2^63 places and 2^32 shares.
  __extension__ using Wide = unsigned __int128;
  for (size_t source = 0; source + 1 < shares_.size(); ++source) {
    auto taken = [&](int64_t places) {
      return static_cast<int64_t>(static_cast<Wide>(places) * shares_[source] >> kShareBits);
    };
    const int64_t before = taken(place);
    if (taken(place + 1) > before) return {source, before};
    place -= before;
  }
  return {shares_.size() - 1, place};
}

}  // namespace ridge::train
