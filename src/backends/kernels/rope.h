// SPDX-License-Identifier: Apache-2.0
// What a rope kernel is given: rotary position embedding, each pair of a head's elements rotated by
// an angle of its token's position, and the table of those angles' cosines and sines. (Su et al.
// 2021.) T is float or uint16_t (bf16). Knows no cache.
#pragma once

#include <cstdint>

#include "backends/kernels/token_heads.h"

namespace ridge::backends {

// Which two elements of a head are pair i of E/2.
enum class RopePairs : uint8_t {
  kInterleaved,  // 2i and 2i + 1
  kHalves,       // i and i + E/2
};

// (a, b) of a pair becomes (a cos - b sin, b cos + a sin); inverse: sin negated.
template <typename T>
struct Rope {
  int64_t tokens = 0;  // N
  int64_t heads = 0;   // in a row of x and of y
  // Heads [0, this) are rotated, the others copied: q and k among q, k, v.
  int64_t rotated_heads = 0;
  int64_t head_size = 0;       // E, even
  TokenHeads<const T> x;       // [N, heads, E]
  const float* cos = nullptr;  // [N, E/2], dense
  const float* sin = nullptr;  // [N, E/2]
  TokenHeads<T> y;             // [N, heads, E]; may be x, and must not overlap it otherwise
  RopePairs pairs = RopePairs::kHalves;
  bool inverse = false;  // rotates back: the gradient
};

// Frequencies stretched beyond the trained context.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };

// cos and sin of position theta^(-2i/E), in double, stored as float.
struct RopeTable {
  int64_t tokens = 0;                  // N
  int64_t head_size = 0;               // E, even
  const int32_t* positions = nullptr;  // [N]; a negative one (padding) gets cos 1 and sin 0
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;  // linear and llama3
  // Llama 3 only: wavelengths above original_context / low_factor are
  // stretched by `factor`, those below original_context / high_factor
  // are left, those between are blended (the model card's recipe).
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  double original_context = 8192.0;
  float* cos = nullptr;  // [N, E/2]
  float* sin = nullptr;  // [N, E/2]
};

}  // namespace ridge::backends
