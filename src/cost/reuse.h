// SPDX-License-Identifier: Apache-2.0
// Computes reuse distances: for each touch of a piece of memory, the bytes touched since its last
// touch, which determine the cache level it comes from. Models one fully associative memory with
// least-recently-used replacement, independent of the sizes of caches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::cost {

struct Touch {
  size_t piece = 0;
  int64_t bytes = 0;
};

// For each touch of a run that is made again and again: the bytes of the other distinct pieces
// touched since the last touch of its piece, which may be in the run before. Each piece counts with
// the bytes of its last touch. The numbers of pieces begin at 0.
std::vector<int64_t> reuse_distances(std::span<const Touch> run);

}  // namespace ridge::cost
