// SPDX-License-Identifier: Apache-2.0
// The memory side of the time model: each node's planned traffic at the bandwidth that its reuse
// distances deserve.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "perf/ceilings.h"
#include "perf/cost.h"
#include "perf/places.h"
#include "perf/planner.h"

namespace ridge::perf {

// Time per byte as a function of how many bytes were touched since the byte's last touch: linear in
// the logarithm of the footprint between the measured points, flat outside.
class Bandwidth {
 public:
  explicit Bandwidth(const Ceilings& ceilings);
  double read_ns(int64_t bytes, int64_t distance_bytes) const;
  double write_ns(int64_t bytes, int64_t distance_bytes) const;
  // A write of what the kernel has just read; the distance is the read's.
  double update_ns(int64_t bytes, int64_t distance_bytes) const;
  double access_ns(int64_t bytes, int64_t distance_bytes, bool is_write, bool updates) const {
    if (!is_write) return read_ns(bytes, distance_bytes);
    return updates ? update_ns(bytes, distance_bytes) : write_ns(bytes, distance_bytes);
  }
  double ns(int64_t read_bytes, int64_t written_bytes, int64_t distance_bytes) const {
    return read_ns(read_bytes, distance_bytes) + write_ns(written_bytes, distance_bytes);
  }

 private:
  struct Point {
    double log_footprint;
    double read_ns_per_byte;
    double write_ns_per_byte;
    double update_ns_per_byte;
  };
  double interpolate(double Point::*member, int64_t distance_bytes) const;

  std::vector<Point> points_;
};

struct MemoryTime {
  double ns = 0;       // the node's traffic at its reuse distances
  double near_ns = 0;  // the same had the node's operands been touched just before
};

// One per node. Addresses are the arena's offsets and one range for each stored value; the schedule
// is walked twice, and the second walk counts: the graph runs over and over.
std::vector<MemoryTime> memory_times(const Graph& graph,
                                     const std::vector<Place>& places,
                                     const MemoryPlan& plan,
                                     const std::vector<NodeCost>& costs,
                                     const Ceilings& ceilings);

}  // namespace ridge::perf
