// SPDX-License-Identifier: Apache-2.0
// What the system says about this process's memory. Not Ridge's own account: that is the planner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ridge {
inline namespace base {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_bytes = 0;  // the most that was resident since the start or the last reset

  // Of which so much is somebody else's.
  ProcessMemory without(int64_t bytes) const {
    return {resident_bytes - bytes, peak_bytes - bytes};
  }
};

// From /proc/self/status; zeros where the system has no such file.
ProcessMemory read_process_memory();
// The same from the file's text.
ProcessMemory parse_process_status(std::string_view status);

// Of the pages that `part` touches, the bytes that this process has in memory; 0 where the system
// does not tell.
int64_t resident_bytes(std::span<const std::byte> part);

// What a process could still take without swapping: the system's estimate, or what a control group
// leaves of it. 0 where neither is known.
int64_t available_memory_bytes();

// Makes the present resident size the peak. False where the system refuses: peaks are then those of
// the whole process.
bool reset_peak_memory();

}  // namespace base
}  // namespace ridge
