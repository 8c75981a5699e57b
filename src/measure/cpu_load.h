// SPDX-License-Identifier: Apache-2.0
// How busy other programs keep the cores that this process may use. Not a profiler.
#pragma once

#include <cstdint>

namespace ridge::measure {

// Reads the kernel's counters (/proc/stat, in ticks of 10 ms) when it is made and when it is asked.
class CpuLoad {
 public:
  CpuLoad();
  // Of the cores' time since it was made, what others used or a hypervisor took, 0 to 1; 0 where
  // the counters cannot be read.
  double others_share() const;

 private:
  struct Sample {
    double busy_s = 0;  // all programs' time on the allowed cores
    double own_s = 0;   // this process's
    double wall_s = 0;
    int cpus = 0;  // 0: unknown
  };
  static Sample now();

  Sample begin_;
};

}  // namespace ridge::measure
