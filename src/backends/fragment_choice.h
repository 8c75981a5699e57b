// SPDX-License-Identifier: Apache-2.0
// How a GPU multiplies a weight in fragment tiles, for the CUDA backend and for plans of a GPU that
// is not here.
#pragma once

#include <cstdint>

namespace ridge::backends {

// Whether tokens are multiplied by the tiles as they are, which the kernel does 64 at a time. With
// more tokens the weight is unpacked to bf16 first, a small one from 65 on: on an H200 [3072, 2048]
// in Q4_K takes 17.5 us for 128 tokens as it is, and 11.3 us unpacked for 144
// (docs/runs/2026-12-01-prefetch-and-first-use-h200.md).
inline bool is_multiplied_in_tiles(int64_t tokens, int64_t elements) {
  constexpr int64_t kAtOnce = 64, kMostTokens = 128, kSmall = int64_t{1} << 23;
  return tokens <= kAtOnce || (tokens <= kMostTokens && elements > kSmall);
}

}  // namespace ridge::backends
