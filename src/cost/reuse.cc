// SPDX-License-Identifier: Apache-2.0
// Stack distances by a Fenwick tree over the touches of a run, in which each piece is counted only
// at its last touch.
#include "cost/reuse.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ridge::cost {
namespace {

// The bytes at each touch of the run that is still the last one of its piece.
class LastTouches {
 public:
  // `bytes`: at each touch.
  explicit LastTouches(const std::vector<int64_t>& bytes) : tree_(std::bit_ceil(bytes.size()) + 1) {
    std::ranges::copy(bytes, tree_.begin() + 1);
    for (size_t i = 1; i + 1 < tree_.size(); ++i) tree_[above(i)] += tree_[i];
  }

  // The sum over all touches up to this one.
  int64_t sum_to(size_t touch) const {
    int64_t sum = 0;
    for (size_t i = touch + 1; i > 0; i &= i - 1) sum += tree_[i];
    return sum;
  }

  // Takes the bytes at one touch away and adds those at another. The ways up the tree meet, at its
  // top if not below, because its size is a power of two.
  void move(size_t from, int64_t before, size_t to, int64_t now) {
    size_t i = from + 1, j = to + 1;
    while (i != j)
      if (i < j)
        tree_[i] -= before, i = above(i);
      else
        tree_[j] += now, j = above(j);
    for (; now != before && i < tree_.size(); i = above(i)) tree_[i] += now - before;
  }

 private:
  static size_t above(size_t i) { return i + (i & -i); }

  std::vector<int64_t> tree_;
};

}  // namespace

std::vector<int64_t> reuse_distances(std::span<const Touch> run) {
  size_t pieces = 0;
  for (const Touch& each : run) pieces = std::max(pieces, each.piece + 1);
  std::vector<size_t> last(pieces);
  for (size_t i = 0; i < run.size(); ++i) last[run[i].piece] = i;
  std::vector<int64_t> bytes(run.size(), 0);
  int64_t total = 0;
  for (size_t i = 0; i < run.size(); ++i)
    if (last[run[i].piece] == i) total += bytes[i] = run[i].bytes;
  LastTouches touches(bytes);
  // A run after the first: touches before i are of this run, the others of the run before.
  int64_t since_begin = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    const size_t from = std::exchange(last[run[i].piece], i);
    const int64_t before = run[from].bytes, now = run[i].bytes;
    if (from == i) {  // the only touch in a run
      bytes[i] = total - before;
    } else {
      const bool is_this_run = from < i;
      bytes[i] = since_begin + (is_this_run ? 0 : total) - touches.sum_to(from);
      touches.move(from, before, i, now);
      if (is_this_run) since_begin -= before;
    }
    since_begin += now;
    total += now - before;
  }
  return bytes;
}

}  // namespace ridge::cost
