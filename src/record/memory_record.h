// SPDX-License-Identifier: Apache-2.0
// The memory of a run: what the plan owns, node by node and by class, beside what the system saw.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process_memory.h"
#include "cost/costed_graph.h"
#include "graph/graph.h"

namespace ridge::record {

// The node that runs, and what is live while it does.
struct MemoryPoint {
  std::string graph;
  NodeId node = 0;
  std::string op;
  std::string scope;
  std::string phase;
  plan::MemoryMoment live;
};

struct MemoryRecord {
  std::vector<MemoryPoint> timeline;  // all graphs in the order they run, each once
  int64_t arena_bytes = 0;            // one arena for all graphs: the largest plan
  int64_t live_peak_bytes = 0;        // the most that is live at once, stored values included
  // Parameters, states and inputs of all graphs, each once
  int64_t store_bytes[plan::kMemoryClasses] = {};
  int64_t owned_bytes = 0;      // predicted: arena and store
  int64_t allocated_bytes = 0;  // what the runtime took for them
  int64_t foreign_bytes = 0;    // resident before the first allocation: code, libraries, caches
  ProcessMemory before;         // as the system saw it then
  ProcessMemory after;  // at the end; the peak is of the steps alone where it could be reset
  bool peak_was_reset = false;

  int64_t predicted_peak_bytes() const { return owned_bytes + foreign_bytes; }
  // Highest point of each class over the timeline.
  plan::MemoryMoment class_peaks() const;
  // Where the total is highest; null without a timeline.
  const MemoryPoint* peak() const;
};

// The predicted part of the record for graphs that share one store and one arena. Stored values
// count once each, in every point: they stay while any graph runs. A state that a backward node
// updates is a gradient's accumulator, one that the optimizer reads its own; the others are caches.
MemoryRecord planned_memory(std::span<const cost::ProgramGraph> graphs);

}  // namespace ridge::record
