// SPDX-License-Identifier: Apache-2.0
// Measures how much of the allowed cores other programs use. It is not a profiler.
#pragma once

#include <cstdint>

namespace ridge::measure {

// Reads the kernel's counters (/proc/stat, in ticks of 10 ms) at construction and at each query.
class CpuLoad {
 public:
  CpuLoad();
  // The share of the cores' time since construction that other programs used or a hypervisor took,
  // 0 to 1; 0 if the counters cannot be read.
  double others_share() const;

 private:
  struct Sample {
    double busy_s = 0;  // time of all programs on the allowed cores
    double own_s = 0;   // time of this process
    double wall_s = 0;
    int cpus = 0;  // 0: unknown
  };
  static Sample now();

  Sample begin_;
};

}  // namespace ridge::measure
