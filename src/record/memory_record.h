// SPDX-License-Identifier: Apache-2.0
// Memory of a run: planned memory by node and by class, and the memory that the system reported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process_memory.h"
#include "cost/costed_graph.h"
#include "graph/graph.h"

namespace ridge::record {

// A node and the memory that is live while it runs.
struct MemoryPoint {
  std::string graph;
  NodeId node = 0;
  std::string op, scope, phase;
  plan::MemoryMoment live;
};

// One buffer or stored value, and the bytes that it takes.
struct LiveTensor {
  std::string name, op, scope, phase, type;
  plan::MemoryClass memory_class = plan::MemoryClass::kActivations;
  int64_t bytes = 0;
};

struct MemoryRecord {
  std::vector<MemoryPoint> timeline;  // all graphs in execution order, each once
  int64_t arena_bytes = 0, live_peak_bytes = 0;
  std::vector<LiveTensor> at_peak;  // live then, largest first; adds up to the total
  int64_t store_bytes[plan::kMemoryClasses] = {};
  int64_t owned_bytes = 0, allocated_bytes = 0, foreign_bytes = 0;
  ProcessMemory before;  // reported by the system before the first allocation
  ProcessMemory after;   // at the end; covers only the steps if the peak could be reset
  bool peak_was_reset = false;

  int64_t predicted_peak_bytes() const { return owned_bytes + foreign_bytes; }
  plan::MemoryMoment class_peaks() const;
  // The point with the largest total; null without a timeline.
  const MemoryPoint* peak() const;
};

// The predicted part of the record, for graphs that share one store and one arena. Each stored
// value counts once and is live at every point. A state that a backward node uses is a gradient
// accumulator; otherwise one that an optimizer node uses is optimizer state; all others are KV
// caches.
MemoryRecord planned_memory(std::span<const cost::ProgramGraph> graphs);

}  // namespace ridge::record
