// SPDX-License-Identifier: Apache-2.0
// Finds the settings of a machine that cost speed, and the switches that mend them.
#include "record/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ridge::record {
std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (end - i > 1) text += "-" + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

namespace {

bool has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void add_threads(const Topology& t, int threads, std::vector<PerformanceWarning>& found) {
  const int cpus = static_cast<int>(t.allowed_cpus.size());
  if (cpus > 0 && threads > cpus)
    found.push_back(
        {fmt::format("{} threads share {} CPUs that this process may use", threads, cpus),
         fmt::format("--threads {}", std::max(t.allowed_cores, 1))});
  else if (t.allowed_cores > 0 && threads > t.allowed_cores)
    found.push_back({fmt::format("{} threads run on {} cores: two of a core share its multipliers",
                                 threads, t.allowed_cores),
                     fmt::format("--threads {}", t.allowed_cores)});
  if (t.quota_cpus > 0 && t.quota_cpus < threads)
    found.push_back(
        {fmt::format(
             "the control group's quota is the time of {:g} CPUs for {} threads: they pause "
             "together when it is spent",
             t.quota_cpus, threads),
         fmt::format("--threads {}, or a higher quota (cpu.max, docker --cpus)",
                     std::max(1, static_cast<int>(std::floor(t.quota_cpus))))});
  if (!t.allowed_cpus.empty() && cpus < t.cpus)
    found.push_back(
        {fmt::format("this process may use CPUs {} of {}", cpu_list(t.allowed_cpus), t.cpus),
         "taskset, or the container's cpuset, if that is not meant"});
}

void add_nodes(const Topology& t, std::vector<PerformanceWarning>& found) {
  if (t.nodes.size() < 2) return;
  if (t.numa_balancing.value_or(false))
    found.push_back({"automatic NUMA balancing is on: it unmaps and moves pages while kernels run",
                     "sysctl -w kernel.numa_balancing=0"});
  if (t.allowed_nodes.size() > 1)
    found.push_back(
        {fmt::format("threads run on NUMA nodes {}: some of them read memory of another node",
                     cpu_list(t.allowed_nodes)),
         fmt::format("numactl --cpunodebind={0} --membind={0} ridge ..., or all nodes with "
                     "numactl --interleave=all",
                     t.allowed_nodes.front())});
  if (t.allowed_nodes.size() == 1 && !t.memory_nodes.empty() &&
      !has(t.memory_nodes, t.allowed_nodes.front()))
    found.push_back({fmt::format("threads run on NUMA node {}, but memory comes from {}",
                                 t.allowed_nodes.front(), cpu_list(t.memory_nodes)),
                     fmt::format("numactl --membind={}", t.allowed_nodes.front())});
}

void add_gpus(const Topology& t, std::vector<PerformanceWarning>& found) {
  for (const PciGpu& gpu : t.gpus) {
    if (t.nodes.size() > 1 && gpu.node >= 0 && !t.allowed_nodes.empty() &&
        (t.allowed_nodes.size() > 1 || t.allowed_nodes.front() != gpu.node))
      found.push_back(
          {fmt::format("GPU {} is at NUMA node {}, threads and memory are at {}: copies cross "
                       "between nodes",
                       gpu.address, gpu.node, cpu_list(t.allowed_nodes)),
           fmt::format("numactl --cpunodebind={0} --membind={0} ridge ...", gpu.node)});
    if (gpu.width > 0 && gpu.width < gpu.most_width)
      found.push_back(
          {fmt::format("GPU {} has {} PCIe lanes of {}", gpu.address, gpu.width, gpu.most_width),
           "another slot, or the firmware's bifurcation setting"});
  }
}

}  // namespace

std::vector<PerformanceWarning> performance_warnings(const Topology& topology, int threads) {
  std::vector<PerformanceWarning> found;
  add_threads(topology, threads, found);
  add_nodes(topology, found);
  add_gpus(topology, found);
  return found;
}

}  // namespace ridge::record
