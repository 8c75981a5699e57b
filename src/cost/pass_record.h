// SPDX-License-Identifier: Apache-2.0
// Records the effect of a pass on a graph, for reports.
#pragma once

#include <cstdint>
#include <string>

namespace ridge::cost {

// Costs of the graph as planned for a target.
struct GraphCost {
  int64_t nodes = 0;
  int64_t launches = 0;
  int64_t flops = 0;
  int64_t bytes = 0;
  int64_t peak_bytes = 0;   // arena
  double predicted_ns = 0;  // 0 if no ceilings are known
};

struct PassRecord {
  std::string name;
  std::string stage;
  std::string summary;
  std::string trade;
  GraphCost before;
  GraphCost after;
  double elapsed_ns = 0;
};

}  // namespace ridge::cost
