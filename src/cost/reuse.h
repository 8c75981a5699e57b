// SPDX-License-Identifier: Apache-2.0
// Computes reuse distances: for each piece of memory, the bytes touched since its last touch, which
// determine the cache level it comes from. Models one fully associative memory with
// least-recently-used replacement, independent of the sizes of caches.
#pragma once

#include <cstdint>
#include <vector>

namespace ridge::cost {

class ReuseClock {
 public:
  // Pieces are numbered from 0 to pieces - 1; at most `touches` touches are made in all.
  ReuseClock(int64_t pieces, int64_t touches);

  // A touch of which nobody asks the distance; faster than touch, and only before the first of it.
  void warm_up(int64_t piece, int64_t bytes);
  // Touches `bytes` of a piece. Returns the bytes of the other distinct pieces touched since its
  // last touch, or -1 at its first touch.
  int64_t touch(int64_t piece, int64_t bytes);

 private:
  void add(int64_t at, int64_t bytes);
  void index_warm_up();
  int64_t sum_to(int64_t at) const;

  std::vector<int64_t> last_;   // per piece: the time of its last touch, -1 before the first
  std::vector<int64_t> bytes_;  // per piece: the bytes of its last touch
  std::vector<int64_t> tree_;   // Fenwick tree over times: bytes of the piece last touched then
  int64_t total_ = 0;           // bytes in the tree
  int64_t now_ = 0;
  bool is_indexed_ = false;     // whether tree_ has sums; before, it has single times
};

}  // namespace ridge::cost
