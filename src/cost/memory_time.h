// SPDX-License-Identifier: Apache-2.0
// The memory part of the time model: each node's planned traffic at the bandwidth of its reuse
// distance.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"

namespace ridge::cost {

// Time per byte as a function of the reuse distance (other bytes accessed since the last use):
// linear in the logarithm of the distance between the measured footprints, constant outside.
class Bandwidth {
 public:
  explicit Bandwidth(const Ceilings& ceilings);
  double ns_per_byte(int64_t distance_bytes, bool is_write) const;

 private:
  struct Point {
    double log_footprint;
    double read_ns_per_byte;
    double write_ns_per_byte;
  };
  std::vector<Point> points_;
};

// The time of each node's traffic, in ns. An address is an offset in the arena, or lies in the
// range of a stored value. The schedule is traversed twice and only the second time counts, because
// the graph runs repeatedly.
std::vector<double> memory_times(const CostedGraph& costed, const Ceilings& ceilings);

}  // namespace ridge::cost
