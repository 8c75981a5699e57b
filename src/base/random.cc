// SPDX-License-Identifier: Apache-2.0
// Uniform floats, blockwise normals and permutations, as in the oracle section of
// docs/accounting.md.
#include "base/random.h"

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

}  // namespace

void Random::fill_normal(std::span<float> out, float std) {
  size_t n = out.size();
  if (n < kBlock) {
    float block[kBlock];
    for (float& u : block) u = uniform();
    to_normals(block, std);
    for (size_t i = 0; i < n; ++i) out[i] = block[i];
    return;
  }
  for (float& u : out) u = uniform();
  // The draws follow each other; what becomes of them does not.
  const auto blocks = static_cast<int64_t>(n / kBlock);
#pragma omp parallel for schedule(static) if (blocks >= kSharedBlocks)
  for (int64_t i = 0; i < blocks; ++i) to_normals(&out[static_cast<size_t>(i) * kBlock], std);
  if (n % kBlock != 0) {
    float* tail = &out[n - kBlock];
    for (int j = 0; j < kBlock; ++j) tail[j] = uniform();
    to_normals(tail, std);
  }
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
