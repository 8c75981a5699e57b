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

void ReuseClock::warm_up(int64_t piece, int64_t bytes) {
  RIDGE_CHECK(!is_indexed_, "a touch before the warm-up's last");
  RIDGE_CHECK(now_ + 1 < static_cast<int64_t>(tree_.size()), "more touches than announced");
  const size_t at = static_cast<size_t>(piece);
  if (last_[at] >= 0) tree_[static_cast<size_t>(last_[at]) + 1] = 0;
  total_ += bytes - bytes_[at];
  last_[at] = now_++;
  bytes_[at] = bytes;
  tree_[static_cast<size_t>(now_)] = bytes;
}

void ReuseClock::index_warm_up() {
  is_indexed_ = true;
  for (size_t i = 1; i < tree_.size(); ++i)
    if (const size_t above = i + (i & -i); above < tree_.size()) tree_[above] += tree_[i];
}

int64_t ReuseClock::touch(int64_t piece, int64_t bytes) {
  RIDGE_CHECK(now_ + 1 < static_cast<int64_t>(tree_.size()), "more touches than announced");
  if (!is_indexed_) index_warm_up();
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
