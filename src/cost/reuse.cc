// SPDX-License-Identifier: Apache-2.0
// Stack distances by a Fenwick tree over touch times, with each piece counted only at its last
// touch.
#include "cost/reuse.h"

#include "base/error.h"

namespace ridge::cost {

ReuseClock::ReuseClock(int64_t pieces, int64_t touches)
    : last_(static_cast<size_t>(pieces), -1),
      bytes_(static_cast<size_t>(pieces), 0),
      tree_(static_cast<size_t>(touches) + 1, 0) {}

void ReuseClock::add(int64_t at, int64_t bytes) {
  for (int64_t i = at + 1; i < static_cast<int64_t>(tree_.size()); i += i & -i)
    tree_[static_cast<size_t>(i)] += bytes;
}

int64_t ReuseClock::sum_to(int64_t at) const {
  int64_t sum = 0;
  for (int64_t i = at + 1; i > 0; i -= i & -i) sum += tree_[static_cast<size_t>(i)];
  return sum;
}

int64_t ReuseClock::touch(int64_t piece, int64_t bytes) {
  RIDGE_CHECK(now_ + 1 < static_cast<int64_t>(tree_.size()), "more touches than announced");
  size_t at = static_cast<size_t>(piece);
  int64_t distance = -1;
  if (last_[at] >= 0) {
    distance = total_ - sum_to(last_[at]);
    add(last_[at], -bytes_[at]);
    total_ -= bytes_[at];
  }
  add(now_, bytes);
  total_ += bytes;
  last_[at] = now_++;
  bytes_[at] = bytes;
  return distance;
}

}  // namespace ridge::cost
