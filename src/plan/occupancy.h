// SPDX-License-Identifier: Apache-2.0
// The byte ranges of an arena that are occupied, by time. A segment tree over the schedule: a range
// is entered at the O(log n) segments that its life consists of, so a search reads O(log n) sets
// instead of every buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace ridge::plan {

class Occupancy {
 public:
  // Times are 0 to `moments` - 1.
  explicit Occupancy(int64_t moments);

  // The lowest offset at which `bytes` are free during first..last.
  int64_t lowest_free(NodeId first, NodeId last, int64_t bytes) const;
  // Occupies begin..end during first..last. Other times of the same bytes may be occupied already.
  void occupy(NodeId first, NodeId last, int64_t begin, int64_t end);

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // Disjoint ranges by address. Ranges that touch are one range.
  class Ranges {
   public:
    bool empty() const { return ranges_.empty(); }
    void add(Range range);
    // The last range that overlaps `range`, or null.
    const Range* last_overlap(Range range) const;

   private:
    std::vector<Range> ranges_;
  };
  struct Segment {
    Ranges throughout;  // occupied during the whole segment
    Ranges sometime;    // occupied during some of the segment
  };

  // Visits the segments that first..last consists of (as `whole`) and those that they are part of,
  // down from the root, which is segment 1. Segment i consists of 2i and 2i + 1.
  template <typename Visit>
  void walk(NodeId first, NodeId last, const Visit& visit) const;

  int64_t leaves_ = 1;
  std::vector<Segment> segments_;
};

}  // namespace ridge::plan
