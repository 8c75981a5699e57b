// SPDX-License-Identifier: Apache-2.0
// Assigns an address range to each value in one address space: the arena at its offsets, then a
// range for each stored value. The addresses belong to the plan, not to the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "plan/planned_graph.h"

namespace ridge::plan {

// Ranges of stored values begin at multiples of this.
inline constexpr int64_t kStoredAlignment = 8 << 10;

// A range of addresses that a node accesses, and the bytes that it reads or writes there.
struct Access {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;
  bool is_write = false;
  bool is_stored = false;  // the value is stored, not a temporary
};

class Addresses {
 public:
  // `planned` must outlive this object.
  explicit Addresses(const PlannedGraph& planned);

  int64_t end() const { return end_; }
  Access access(ValueId value, bool is_write) const;

 private:
  const PlannedGraph& planned_;
  std::vector<int64_t> stored_;  // per root: its address, -1 for temporaries
  int64_t end_ = 0;
};

}  // namespace ridge::plan
