// SPDX-License-Identifier: Apache-2.0
// Compares the counters of /proc/stat with this process's CPU time.
#include "measure/cpu_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/clock.h"

namespace ridge::measure {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

CpuLoad::CpuLoad() : begin_(now()) {}

CpuLoad::Sample CpuLoad::now() {
  Sample sample;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return sample;
  sample.own_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  sample.wall_s = now_ns() * 1e-9;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return sample;
  const auto ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    int cpu = 0;
    long long user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, stolen = 0;
    // Matches "cpu0 ..."; the line for all CPUs has no number and does not match.
    if (std::sscanf(line.c_str(), "cpu%d %lld %lld %lld %lld %lld %lld %lld %lld", &cpu, &user,
                    &nice, &system, &idle, &wait, &irq, &soft, &stolen) != 9)
      continue;
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) continue;
    sample.busy_s += static_cast<double>(user + nice + system + irq + soft + stolen) / ticks_per_s;
    ++sample.cpus;
  }
  return sample;
}

double CpuLoad::others_share() const {
  Sample end = now();
  double capacity_s = (end.wall_s - begin_.wall_s) * end.cpus;
  if (end.cpus != begin_.cpus || !(capacity_s > 0)) return 0;
  double others_s = (end.busy_s - begin_.busy_s) - (end.own_s - begin_.own_s);
  return std::clamp(others_s / capacity_s, 0.0, 1.0);
}

}  // namespace ridge::measure
