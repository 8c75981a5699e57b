// SPDX-License-Identifier: Apache-2.0
// Measured times of a program. The runtime fills these records and the reports read them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ridge::record {

// How a device ran one of its kernels, as its records say. 0 where they do not.
struct DeviceKernel {
  enum class Kind { kCompute, kMemset, kMemcpy };
  Kind kind = Kind::kCompute;
  std::string name;  // the function's in the device's code; a copy's says what it copies
  std::array<int32_t, 3> grid{}, block{};
  int32_t registers = 0;                                      // per thread
  int64_t static_shared_bytes = 0, dynamic_shared_bytes = 0;  // per block
  double occupancy = 0;      // estimated: resident warps over the most that a multiprocessor holds
  int64_t copied_bytes = 0;  // by a memset or memcpy
  bool operator==(const DeviceKernel&) const = default;
};

// One kernel call in one run.
struct Span {
  int32_t node = 0;     // index into the graph's nodes
  double begin_ns = 0;  // from the start of the run
  double end_ns = 0;
  int32_t kernel = -1;  // index into ProfiledRun::kernels; -1: the device has no such records
};

// The host's time for one launch, on the clock of the spans.
struct Enqueue {
  int32_t node = -1;  // -1: a replay of all launches
  double begin_ns = 0;
  double end_ns = 0;
};

// One instrumented run of one graph.
struct ProfiledRun {
  std::vector<Span> spans;
  std::vector<Enqueue> enqueues;      // in order; empty where the host runs the kernels itself
  std::vector<DeviceKernel> kernels;  // those of the spans, each once
  double called_ns = 0;               // when the run was asked for, on the host's clock
  double wall_ns = 0;
  // Overhead of the instrument before and after the run, not part of wall_ns.
  double instrument_ns = 0;
  int64_t dropped = 0;  // records that the instrument lost
  // A caveat that a reader of the times should know; empty if there is none.
  std::string caveat;
};

}  // namespace ridge::record
