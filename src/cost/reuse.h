// SPDX-License-Identifier: Apache-2.0
// How far back in time, counted in bytes touched since, each piece of memory was last touched: what
// decides from which cache level it comes. A model of one fully associative, least-recently-used
// memory; it knows no caches' sizes.
#pragma once

#include <cstdint>
#include <vector>

namespace ridge::cost {

class ReuseClock {
 public:
  // Pieces are numbered 0 to pieces - 1; at most `touches` touches are made in all.
  ReuseClock(int64_t pieces, int64_t touches);

  // Touches `bytes` of a piece. Returns the bytes of distinct pieces touched since its last touch,
  // itself left out; -1 at the first.
  int64_t touch(int64_t piece, int64_t bytes);

 private:
  void add(int64_t at, int64_t bytes);
  int64_t sum_to(int64_t at) const;

  std::vector<int64_t> last_;   // per piece: the time of its last touch, -1 before
  std::vector<int64_t> bytes_;  // per piece: of its last touch
  std::vector<int64_t> tree_;   // Fenwick tree over times: bytes whose last touch was then
  int64_t total_ = 0;           // bytes in it
  int64_t now_ = 0;
};

}  // namespace ridge::cost
