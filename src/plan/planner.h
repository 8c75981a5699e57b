// SPDX-License-Identifier: Apache-2.0
// The memory planner. From liveness over the schedule, it assigns every temporary an offset in one
// arena, so the peak is known before the first run. Parameters, states and inputs live in the
// store; here their bytes are only summed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plan/places.h"
#include "plan/target.h"

namespace ridge::plan {

enum class MemoryClass : uint8_t {
  kParameters,
  kGradients,
  kOptimizerState,
  kKvCache,  // keys, values and other state that one inference step leaves for the next
  kActivations,
  kWorkspace,
  kData
};
inline constexpr int kMemoryClasses = 7;
std::string_view name(MemoryClass memory_class);

// A range of the arena that is live from node `first` to node `last`, both included.
struct Buffer {
  ValueId root = kNoValue;  // kNoValue: a node's workspace
  NodeId first = 0;
  NodeId last = 0;
  int64_t bytes = 0;  // rounded up to the alignment
  int64_t offset = 0;
  MemoryClass memory_class = MemoryClass::kActivations;
};

struct MemoryPlan {
  std::vector<Buffer> buffers;
  // Per value: the index of its root's buffer; -1 for stored values and views of them.
  std::vector<int> buffer_of;
  std::vector<int> workspace_of;  // per node: the index of its workspace's buffer, or -1
  int64_t arena_bytes = 0;        // the highest end of a buffer
  // The largest sum of live bytes: arena_bytes less fragmentation.
  int64_t live_peak_bytes = 0;
  int64_t store_bytes[kMemoryClasses] = {};  // stored values by class
  int64_t owned_bytes() const;               // arena and store
};

MemoryPlan plan_memory(const Graph& graph, const std::vector<Place>& places, const Target& target);

}  // namespace ridge::plan
