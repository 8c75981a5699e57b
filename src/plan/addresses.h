// SPDX-License-Identifier: Apache-2.0
// Where the bytes of each value lie in one space of addresses: the arena at its offsets, then a
// range for each stored value. The addresses are the plan's, not the machine's.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "plan/planned_graph.h"

namespace ridge::plan {

// Stored values begin at its multiples.
inline constexpr int64_t kStoredAlignment = 8 << 10;

// A range of addresses that a node accesses, and the bytes that it moves there.
struct Access {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;
  bool is_write = false;
};

class Addresses {
 public:
  // `planned` must outlive it.
  explicit Addresses(const PlannedGraph& planned);

  int64_t end() const { return end_; }
  Access access(ValueId value, bool is_write) const;

 private:
  const PlannedGraph& planned_;
  std::vector<int64_t> stored_;  // per root: its address, -1 for temporaries
  int64_t end_ = 0;
};

}  // namespace ridge::plan
