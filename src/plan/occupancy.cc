// SPDX-License-Identifier: Apache-2.0
// Implements the segment tree and its sets of ranges.
#include "plan/occupancy.h"

#include <algorithm>
#include <bit>

namespace ridge::plan {

void Occupancy::Ranges::add(Range range) {
  auto first = std::partition_point(ranges_.begin(), ranges_.end(),
                                    [&](const Range& each) { return each.end < range.begin; });
  auto last = std::partition_point(first, ranges_.end(),
                                   [&](const Range& each) { return each.begin <= range.end; });
  if (first == last) {
    ranges_.insert(first, range);
    return;
  }
  *first = {std::min(first->begin, range.begin), std::max(std::prev(last)->end, range.end)};
  ranges_.erase(std::next(first), last);
}

const Occupancy::Range* Occupancy::Ranges::last_overlap(Range range) const {
  auto after = std::partition_point(ranges_.begin(), ranges_.end(),
                                    [&](const Range& each) { return each.begin < range.end; });
  if (after == ranges_.begin() || std::prev(after)->end <= range.begin) return nullptr;
  return &*std::prev(after);
}

Occupancy::Occupancy(int64_t moments)
    : leaves_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(moments)))),
      segments_(static_cast<size_t>(2 * leaves_)) {}

template <typename Visit>
void Occupancy::walk(NodeId first, NodeId last, const Visit& visit) const {
  auto down = [&](const auto& self, size_t segment, int64_t begin, int64_t end) -> void {
    if (last < begin || end <= first) return;
    const bool whole = first <= begin && end <= last + 1;
    visit(segment, whole);
    if (whole) return;
    const int64_t middle = begin + (end - begin) / 2;
    self(self, 2 * segment, begin, middle);
    self(self, 2 * segment + 1, middle, end);
  };
  down(down, 1, 0, leaves_);
}

int64_t Occupancy::lowest_free(NodeId first, NodeId last, int64_t bytes) const {
  std::vector<const Ranges*> sets;
  walk(first, last, [&](size_t i, bool whole) {
    const Ranges& taken = whole ? segments_[i].sometime : segments_[i].throughout;
    if (!taken.empty()) sets.push_back(&taken);
  });
  // A set that moves the offset may have moved it into a range of another set.
  int64_t offset = 0;
  for (size_t at = 0, agreed = 0; agreed < sets.size(); at = (at + 1) % sets.size(), ++agreed)
    while (const Range* taken = sets[at]->last_overlap({offset, offset + bytes})) {
      offset = taken->end;
      agreed = 0;
    }
  return offset;
}

void Occupancy::occupy(NodeId first, NodeId last, int64_t begin, int64_t end) {
  walk(first, last, [&](size_t i, bool whole) {
    segments_[i].sometime.add({begin, end});
    if (whole) segments_[i].throughout.add({begin, end});
  });
}

}  // namespace ridge::plan
