// SPDX-License-Identifier: Apache-2.0
// The memory of this process as the operating system reports it. The planner computes Ridge's own
// account of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ridge {
inline namespace base {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_bytes = 0;  // highest resident size since the start or the last reset

  // Subtracts `bytes` that belong to something else in the process.
  ProcessMemory without(int64_t bytes) const {
    return {resident_bytes - bytes, peak_bytes - bytes};
  }
};

// Reads /proc/self/status; zeros if the system has no such file.
ProcessMemory read_process_memory();
// The same from the file's text.
ProcessMemory parse_process_status(std::string_view status);

// Resident bytes of the pages that `part` touches; 0 if the system does not report them.
int64_t resident_bytes(std::span<const std::byte> part);

// Bytes that a process could still allocate without swapping: the system's estimate, or less if the
// control group leaves less. 0 if neither is known.
int64_t available_memory_bytes();

// From here on the process can allocate so much more; what does not fit fails to allocate. Throws a
// run-time Error if the system refuses.
void limit_memory(int64_t bytes);

// Resets the peak to the current resident size. Returns false if the system refuses; the peak then
// covers the whole life of the process.
bool reset_peak_memory();

}  // namespace base
}  // namespace ridge
