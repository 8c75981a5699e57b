// SPDX-License-Identifier: Apache-2.0
// The order in which training visits windows of token ids: a function of seed, epoch and index, so
// that any rank and any restart finds its place without reading what comes before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::train {

// A permutation of 0..count-1 in constant memory: the image of `index`. A Feistel network on the
// least even number of bits that holds `count`, repeated until the result is below it.
int64_t permuted(int64_t index, int64_t count, uint64_t seed);

// Shares a sequence of places out among sources, each source's share as even as possible.
class Mixture {
 public:
  // Weights are positive; only their ratios count.
  explicit Mixture(std::span<const double> weights);

  struct Window {
    size_t source = 0;
    int64_t index = 0;  // among the places of this source
  };
  Window at(int64_t place) const;

 private:
  // Each source takes this share, times 2^32, of the places that the sources before leave over.
  std::vector<uint64_t> shares_;
};

}  // namespace ridge::train
