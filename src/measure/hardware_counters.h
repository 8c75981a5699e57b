// SPDX-License-Identifier: Apache-2.0
// Counts a processor's events (cycles, instructions, misses of the last level of cache) in the
// program's own code, over all its threads, with the system's perf events. Where the system does
// not offer them, it says why.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/run_record.h"

namespace ridge::measure {

// An event as perf_event_open(2) names it, and where its counts go.
struct HardwareEvent {
  uint32_t type = 0;
  uint64_t config = 0;
  std::vector<double> record::HardwareCounts::*counts = nullptr;
};

std::span<const HardwareEvent> hardware_events();

class HardwareCounters {
 public:
  explicit HardwareCounters(std::span<const HardwareEvent> events = hardware_events())
      : events_(events) {}
  ~HardwareCounters() { close(); }
  HardwareCounters(const HardwareCounters&) = delete;
  HardwareCounters& operator=(const HardwareCounters&) = delete;

  // Counts from here on what the threads that exist now do. Does nothing after a refusal.
  void start();
  // Adds one value to each event's counts, or sets the reason.
  void stop(record::HardwareCounts& counts);

 private:
  void close();

  std::span<const HardwareEvent> events_;
  std::vector<std::vector<int>> groups_;  // descriptors of each thread, one for each event
  std::string refusal_;
};

}  // namespace ridge::measure
