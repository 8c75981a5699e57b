// SPDX-License-Identifier: Apache-2.0
// MT19937 as PyTorch's CPU generator uses it, with its uniform and blockwise normal recipes, so
// that weights and batches of published runs can be reproduced bit for bit. Not for cryptography.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ridge {
inline namespace base {

class Random {
 public:
  explicit Random(uint32_t seed);

  uint32_t next() {
    if (drawn_ == kState) renew();
    return tempered(state_[drawn_++]);
  }
  void skip(int64_t draws);

  // A float in [0, 1) with 24 random bits: (x & 0xFFFFFF) * 2^-24.
  float uniform() { return to_uniform(next()); }

  // normal_(0, std): Box-Muller over blocks of 16. If the size is not a multiple of 16, the last 16
  // elements are drawn again, as in PyTorch.
  void fill_normal(std::span<float> out, float std);
  static int64_t normal_draws(int64_t n);  // how many draws that takes

  // An integer in [0, bound), by rejection: masked bits are redrawn until they are below the bound.
  uint32_t below(uint32_t bound);

  // A permutation of 0..n-1: for i = n-1 down to 1 swap p[i] with p[below(i + 1)].
  std::vector<uint32_t> permutation(uint32_t n);

 private:
  static constexpr size_t kState = 624;

  // The low bits are a signed integer too, which vectors convert.
  static float to_uniform(uint32_t draw) {
    return static_cast<float>(static_cast<int32_t>(draw & 0xFFFFFFu)) * 0x1p-24f;
  }
  static uint32_t tempered(uint32_t x) {
    x ^= x >> 11;
    x ^= (x << 7) & 0x9D2C5680u;
    x ^= (x << 15) & 0xEFC60000u;
    return x ^ (x >> 18);
  }
  void renew();
  void fill_uniform(std::span<float> out);

  std::array<uint32_t, kState> state_;
  size_t drawn_ = kState;  // words of state_ that are used up
};

// A float in [0, 1) with 24 random bits that depends only on these two numbers, so that the draw
// for a token of a sequence is the same in any batch. The mixing is that of SplitMix64.
inline float uniform_at(uint32_t seed, uint32_t counter) {
  uint64_t x = (uint64_t{seed} << 32 | counter) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return static_cast<float>((x ^ (x >> 31)) >> 40) * 0x1p-24f;
}

}  // namespace base
}  // namespace ridge
