// SPDX-License-Identifier: Apache-2.0
// Measured times of a program. The runtime fills these records and the reports read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::record {

// One kernel call in one run.
struct Span {
  int32_t node = 0;     // index into the graph's nodes
  double begin_ns = 0;  // from the start of the run
  double end_ns = 0;
};

// One instrumented run of one graph.
struct ProfiledRun {
  std::vector<Span> spans;
  double wall_ns = 0;
  // Overhead of the instrument before and after the run, not part of wall_ns.
  double instrument_ns = 0;
  int64_t dropped = 0;  // records that the instrument lost
};

}  // namespace ridge::record
