// SPDX-License-Identifier: Apache-2.0
// Opens one group of events for each thread.
#include "measure/hardware_counters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace ridge::measure {
namespace {

std::vector<int> threads() {
  std::vector<int> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = entry.path().filename();
    int id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ec == std::errc())
      ids.push_back(id);
  }
  return ids;
}

// A descriptor, or -1 with errno. The group's first event starts and stops the others.
int open_event(const HardwareEvent& event, int thread, int leader) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = event.type;
  attributes.config = event.config;
  attributes.disabled = leader < 0 ? 1 : 0;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, thread, -1, leader, PERF_FLAG_FD_CLOEXEC));
}

std::string reason_of(int error) {
  if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
    return "this processor offers no such counters, as in most virtual machines";
  if (error == ENOSYS) return "this system has no perf events";
  if (error != EACCES && error != EPERM) return std::strerror(error);
  std::string level = "unknown";
  std::ifstream("/proc/sys/kernel/perf_event_paranoid") >> level;
  return fmt::format(
      "the system does not allow it (kernel.perf_event_paranoid is {}; at most 2 is needed, and in a "
      "container the right to call perf_event_open)",
      level);
}

}  // namespace

std::span<const HardwareEvent> hardware_events() {
  using record::HardwareCounts;
  static constexpr std::array<HardwareEvent, 3> kEvents = {
      {{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, &HardwareCounts::cycles},
       {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, &HardwareCounts::instructions},
       {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, &HardwareCounts::cache_misses}}};
  return kEvents;
}

void HardwareCounters::start() {
  if (!refusal_.empty()) return;
  close();
  for (int thread : threads()) {
    std::vector<int> group;
    for (const HardwareEvent& event : events_) {
      const int opened = open_event(event, thread, group.empty() ? -1 : group[0]);
      if (opened < 0 && errno == ESRCH) break;  // the thread has ended
      if (opened < 0) refusal_ = reason_of(errno);
      if (opened < 0) break;
      group.push_back(opened);
    }
    if (!group.empty()) groups_.push_back(std::move(group));
    if (!refusal_.empty()) return close();
  }
  for (const std::vector<int>& group : groups_)
    ::ioctl(group[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

void HardwareCounters::stop(record::HardwareCounts& counts) {
  for (const std::vector<int>& group : groups_)
    ::ioctl(group[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
  counts.reason = refusal_;
  if (groups_.empty()) return;
  for (size_t i = 0; i < events_.size(); ++i) {
    double sum = 0;
    for (const std::vector<int>& group : groups_) {
      struct {
        uint64_t value, enabled_ns, running_ns;
      } read{};
      if (i >= group.size() || ::read(group[i], &read, sizeof read) != sizeof read) continue;
      // Events that share a counter are multiplexed; the value stands for the whole time.
      if (read.running_ns > 0)
        sum += static_cast<double>(read.value) * static_cast<double>(read.enabled_ns) /
               static_cast<double>(read.running_ns);
    }
    (counts.*events_[i].counts).push_back(sum);
  }
  close();
}

void HardwareCounters::close() {
  for (const std::vector<int>& group : groups_)
    for (int descriptor : group) ::close(descriptor);
  groups_.clear();
}

}  // namespace ridge::measure
