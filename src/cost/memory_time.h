// SPDX-License-Identifier: Apache-2.0
// The memory part of the time model: each node's planned traffic at the bandwidth of its reuse
// distance.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"

namespace ridge::cost {

struct ByteTime {
  double ns = 0;
  // It takes so much longer than one that half of the last cache would hold; 0 without caches.
  double beyond_caches_ns = 0;
};

// Time per byte as a function of the reuse distance (other bytes accessed since the last use):
// linear in the logarithm of the distance between the measured footprints, constant outside.
class Bandwidth {
 public:
  explicit Bandwidth(const Ceilings& ceilings);
  ByteTime byte_time(int64_t distance_bytes, bool is_write) const;
  // ns per byte from behind all caches.
  double slowest_read() const { return points_.back().read_ns_per_byte; }
  // Whether a byte takes as long from any distance.
  bool is_flat() const { return points_.size() == 1; }

 private:
  struct Point {
    int64_t footprint_bytes;
    double log_footprint;
    double read_ns_per_byte;
    double write_ns_per_byte;
  };
  double ns_per_byte(int64_t distance_bytes, bool is_write) const;

  std::vector<Point> points_;
  int64_t cached_bytes_ = 0;                         // half of the last cache; 0 without caches
  double cached_read_ns_ = 0, cached_write_ns_ = 0;  // from that distance
};

// The time of a node's traffic.
struct MemoryTime {
  double ns = 0;
  // The time of its reads of stored values (weights, KV caches), as a share of what they would take
  // from behind all caches, at most 1; 0 if it reads none.
  double stored_share = 0;
  double stored_ns = 0;  // those reads
  // The part of ns by which the traffic takes longer than it would from the last cache.
  double beyond_caches_ns = 0;
};

// The time of each node's traffic. An address is an offset in the arena, or lies in the
// range of a stored value. The schedule is traversed twice and only the second time counts, because
// the graph runs repeatedly.
std::vector<MemoryTime> memory_times(const CostedGraph& costed, const Ceilings& ceilings);

}  // namespace ridge::cost
