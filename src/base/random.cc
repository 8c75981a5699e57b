// SPDX-License-Identifier: Apache-2.0
// MT19937 in loops that vectorize, uniform floats, blockwise normals and permutations, as in the
// oracle section of docs/accounting.md.
#include "base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace ridge {
inline namespace base {
namespace {

constexpr int kBlock = 16;                  // PyTorch draws normals in blocks of 16 ...
constexpr int kHalf = 8;                    // ... whose halves are radius and angle
constexpr int64_t kSharedBlocks = 1 << 12;  // from here on threads are worth their start
constexpr float kTwoPi = 6.283185307179586f;

void to_normals(float* block, float std) {
  for (int j = 0; j < kHalf; ++j) {
    float radius = std::sqrt(-2.0f * std::log(1.0f - block[j]));
    float angle = kTwoPi * block[j + kHalf];
    block[j] = radius * std::cos(angle) * std;
    block[j + kHalf] = radius * std::sin(angle) * std;
  }
}

// [rand.eng.mers] with the constants of mt19937: the next state's word from two words and one that
// is kMiddle further.
constexpr size_t kMiddle = 397;
uint32_t twisted(uint32_t high, uint32_t low, uint32_t middle) {
  const uint32_t x = (high & 0x80000000u) | (low & 0x7FFFFFFFu);
  return middle ^ (x >> 1) ^ ((0u - (x & 1)) & 0x9908B0DFu);
}

}  // namespace

Random::Random(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kState; ++i)
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

void Random::renew() {
  constexpr size_t kTurn = kState - kMiddle;  // from here on the middle word is a new one
  auto& s = state_;
  for (size_t i = 0; i < kTurn; ++i) s[i] = twisted(s[i], s[i + 1], s[i + kMiddle]);
  for (size_t i = kTurn; i + 1 < kState; ++i) s[i] = twisted(s[i], s[i + 1], s[i - kTurn]);
  s[kState - 1] = twisted(s[kState - 1], s[0], s[kMiddle - 1]);
  drawn_ = 0;
}

void Random::skip(int64_t draws) {
  for (auto left = static_cast<size_t>(draws);;) {
    const size_t step = std::min(left, kState - drawn_);
    drawn_ += step, left -= step;
    if (left == 0) return;
    renew();
  }
}

void Random::fill_uniform(std::span<float> out) {
  while (!out.empty()) {
    if (drawn_ == kState) renew();
    const size_t count = std::min(out.size(), kState - drawn_);
    for (size_t i = 0; i < count; ++i) out[i] = to_uniform(tempered(state_[drawn_ + i]));
    drawn_ += count;
    out = out.subspan(count);
  }
}

void Random::fill_normal(std::span<float> out, float std) {
  size_t n = out.size();
  if (n < kBlock) {
    float block[kBlock];
    fill_uniform(block);
    to_normals(block, std);
    for (size_t i = 0; i < n; ++i) out[i] = block[i];
    return;
  }
  fill_uniform(out);
  // The draws follow each other; what becomes of them does not.
  const auto blocks = static_cast<int64_t>(n / kBlock);
#pragma omp parallel for schedule(static) if (blocks >= kSharedBlocks)
  for (int64_t i = 0; i < blocks; ++i) to_normals(&out[static_cast<size_t>(i) * kBlock], std);
  if (n % kBlock != 0) {
    const std::span<float> tail = out.last(kBlock);
    fill_uniform(tail);
    to_normals(tail.data(), std);
  }
}

int64_t Random::normal_draws(int64_t n) {
  if (n < kBlock) return kBlock;
  return n + (n % kBlock == 0 ? 0 : kBlock);
}

uint32_t Random::below(uint32_t bound) {
  uint32_t mask = bound <= 1 ? 0 : (0xFFFFFFFFu >> std::countl_zero(bound - 1));
  while (true) {
    uint32_t x = next() & mask;
    if (x < bound) return x;
  }
}

std::vector<uint32_t> Random::permutation(uint32_t n) {
  std::vector<uint32_t> p(n);
  std::iota(p.begin(), p.end(), 0u);
  for (uint32_t i = n; i-- > 1;) std::swap(p[i], p[below(i + 1)]);
  return p;
}

}  // namespace base
}  // namespace ridge
