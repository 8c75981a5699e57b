// SPDX-License-Identifier: Apache-2.0
// Arguments of the rope kernels: rotary position embedding rotates each pair of a head's elements
// by an angle of its token's position (Su et al. 2021). The table holds the cosines and sines of
// those angles. T is float, uint16_t (bf16) or Float16.
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
  int64_t heads = 0;   // per token of x and of y
  // Heads [0, rotated_heads) are rotated, the others copied: of q, k and v, only q and k are
  // rotated.
  int64_t rotated_heads = 0;
  int64_t head_size = 0;       // E, even
  TokenHeads<const T> x;       // [N, heads, E]
  const float* cos = nullptr;  // [N, E/2], dense
  const float* sin = nullptr;  // [N, E/2]
  TokenHeads<T> y;             // [N, heads, E]; may be x, but may not overlap it otherwise
  RopePairs pairs = RopePairs::kHalves;
  bool inverse = false;  // rotate back: the gradient
};

// How frequencies are stretched beyond the trained context.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };

// cos and sin of the angle position * theta^(-2i/E), computed in double, stored as float.
struct RopeTable {
  int64_t tokens = 0;                  // N
  int64_t head_size = 0;               // E, even
  const int32_t* positions = nullptr;  // [N]; a negative one (padding) gets cos 1 and sin 0
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;  // for kLinear and kLlama3
  // Llama 3 only: wavelengths above original_context / low_frequency_factor are stretched by
  // `factor`, those below original_context / high_frequency_factor are left alone, and those
  // between are blended (the model card's recipe).
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  double original_context = 8192.0;
  float* cos = nullptr;  // [N, E/2]
  float* sin = nullptr;  // [N, E/2]
};

}  // namespace ridge::backends
