// SPDX-License-Identifier: Apache-2.0
// The memory side of the time model: each node's planned
// traffic at the bandwidth that its reuse deserves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"

namespace ridge::cost {

// Since a byte's last touch.
struct Reuse {
  int64_t distance_bytes = 0;  // other bytes touched
  double age_ns = 0;
};

// Time per byte as a function of its reuse: linear in the logarithm of
// the distance between the measured footprints, flat outside. What the
// shared cache has lost to other programs since comes from memory.
class Bandwidth {
 public:
  explicit Bandwidth(const Ceilings& ceilings);
  // `updates`: a write of what the kernel has just read; the reuse is the read's.
  double ns_per_byte(const Reuse& reuse, bool is_write, bool updates) const;

 private:
  struct Point {
    double log_footprint;
    double read_ns_per_byte;
    double write_ns_per_byte;
    double update_ns_per_byte;
  };
  double ns_per_byte(double Point::*member, const Reuse& reuse) const;
  double interpolate(double Point::*member, int64_t distance_bytes) const;

  std::vector<Point> points_;
  int64_t private_bytes_ = 0;  // of the caches before the shared one
  double lifetime_ns_ = 0;     // of what lies in the shared one; 0 = for ever
};

struct MemoryTime {
  double ns = 0;       // the node's traffic as it is reused
  double near_ns = 0;  // the same had the node's operands been touched just before
};

// Runs a node whose traffic takes that time; returns how long it takes in all, ns.
using RunNode = std::function<double(size_t node, const MemoryTime& time)>;

// Calls `run` for each node in turn. Addresses are the arena's offsets and one range for each
// stored value; operands age while nodes run. There are two rounds and the second counts: the graph
// runs over and over.
void walk_memory(const CostedGraph& costed, const Ceilings& ceilings, const RunNode& run);

}  // namespace ridge::cost
