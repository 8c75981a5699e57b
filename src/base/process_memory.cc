// SPDX-License-Identifier: Apache-2.0
// Reads memory sizes from /proc and the control group.
#include "base/process_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace ridge {
inline namespace base {
namespace {

// The number in a line like "VmRSS: 123 kB", in bytes; 0 if the line is missing.
int64_t field_bytes(std::string_view status, std::string_view field) {
  size_t at = status.find(field);
  if (at == std::string_view::npos) return 0;
  at = status.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return 0;
  int64_t kibibytes = 0;
  std::from_chars(status.data() + at, status.data() + status.size(), kibibytes);
  return kibibytes * 1024;
}

std::string contents(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t number(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

int64_t available_memory_bytes() {
  int64_t system = field_bytes(contents("/proc/meminfo"), "MemAvailable:");
  // A group without a limit has "max", which reads as 0. File pages count as available, because the
  // kernel reclaims them when memory runs short.
  int64_t limit = number(contents("/sys/fs/cgroup/memory.max"));
  if (limit <= 0) return system;
  int64_t files = 0;
  std::string stat = contents("/sys/fs/cgroup/memory.stat");
  if (size_t at = stat.find("inactive_file "); at != std::string::npos)
    files = number(stat.substr(at + std::string_view("inactive_file ").size()));
  int64_t left =
      std::max<int64_t>(limit - number(contents("/sys/fs/cgroup/memory.current")) + files, 0);
  return system > 0 ? std::min(system, left) : left;
}

ProcessMemory parse_process_status(std::string_view status) {
  return {field_bytes(status, "VmRSS:"), field_bytes(status, "VmHWM:")};
}

ProcessMemory read_process_memory() { return parse_process_status(contents("/proc/self/status")); }

// proc(5): pagemap has eight bytes per page; the top bit is set if the page is present.
int64_t resident_bytes(std::span<const std::byte> part) {
  constexpr size_t kRun = 4096;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uint64_t end = (begin + part.size() + page - 1) / page;
  // pagemap must be read in whole entries, which a stream's buffer does not guarantee.
  const int pages = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pages < 0) return 0;
  std::vector<uint64_t> run(kRun);
  uint64_t present = 0;
  for (uint64_t at = begin / page; !part.empty() && at < end; at += kRun) {
    const size_t bytes = std::min<uint64_t>(kRun, end - at) * sizeof(uint64_t);
    const ssize_t got =
        ::pread(pages, run.data(), bytes, static_cast<off_t>(at * sizeof(uint64_t)));
    if (got != static_cast<ssize_t>(bytes)) break;
    for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) present += run[i] >> 63;
  }
  ::close(pages);
  return static_cast<int64_t>(present * page);
}

void limit_memory(int64_t bytes) {
  int64_t pages = 0;  // proc(5): statm begins with the pages that are mapped
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  const rlim_t most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + bytes);
  if (::getrlimit(RLIMIT_AS, &limit) == 0 &&
      (limit.rlim_max == RLIM_INFINITY || most <= limit.rlim_max)) {
    limit.rlim_cur = most;
    if (::setrlimit(RLIMIT_AS, &limit) == 0) return;
  }
  throw runtime_error("[memory-limit] the system refuses a limit of {}", format_bytes(bytes));
}

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";  // proc(5): resets the peak resident set size
  file.flush();
  return file.good();
}

}  // namespace base
}  // namespace ridge
