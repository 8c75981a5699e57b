// SPDX-License-Identifier: Apache-2.0
// Reading /proc.
#include "perf/process_memory.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace ridge::perf {
namespace {

// The number of "VmRSS:   123 kB", in bytes; 0 where the line is missing.
int64_t field_bytes(std::string_view status, std::string_view field) {
  size_t at = status.find(field);
  if (at == std::string_view::npos) return 0;
  at = status.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return 0;
  int64_t kibibytes = 0;
  std::from_chars(status.data() + at, status.data() + status.size(), kibibytes);
  return kibibytes * 1024;
}

}  // namespace

ProcessMemory parse_process_status(std::string_view status) {
  return {field_bytes(status, "VmRSS:"), field_bytes(status, "VmHWM:")};
}

ProcessMemory read_process_memory() {
  std::ifstream file("/proc/self/status");
  return parse_process_status(std::string(std::istreambuf_iterator<char>(file), {}));
}

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";  // proc(5): resets the peak resident set size
  file.flush();
  return file.good();
}

}  // namespace ridge::perf
