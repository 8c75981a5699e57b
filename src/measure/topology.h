// SPDX-License-Identifier: Apache-2.0
// Where this machine's cores, memory and GPUs lie, by hwloc, and which settings cost speed. Changes
// nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

struct hwloc_topology;

namespace ridge::measure {

struct CpuCache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  int64_t bytes = 0;
  int instances = 0;
  int cpus = 0;  // that share one
};

struct NumaNode {
  int id = 0;
  std::vector<int> cpus;       // empty: memory without cores
  int64_t memory_bytes = 0;    // 0: unknown
  std::vector<int> distances;  // to each node, in the order of Topology::nodes; 10 = itself
};

struct PciGpu {
  std::string address;            // "0000:17:00.0"
  std::string vendor;             // "NVIDIA", "AMD" or "Intel"
  std::string name;               // from the driver; empty: unknown
  int node = -1;                  // its NUMA node; -1: unknown, or the machine has one
  std::string speed, most_speed;  // of its PCIe link now and at most: "16.0 GT/s PCIe"
  int width = 0, most_width = 0;  // lanes; 0: unknown
};

// How two GPUs reach each other, as nvidia-smi names it: "NV18" (18 NVLinks), "PIX" (one PCIe
// switch), "PXB" (several), "PHB" (a host bridge), "NODE" (host bridges of one NUMA node) or "SYS"
// (between NUMA nodes).
struct GpuLink {
  size_t first = 0, second = 0;  // indices into Topology::gpus, first < second
  std::string kind;
};

struct Topology {
  int cpus = 0;   // online
  int cores = 0;  // physical, online
  int sockets = 0;
  std::vector<CpuCache> caches;  // by level
  std::vector<NumaNode> nodes;
  std::vector<PciGpu> gpus;    // by address
  std::vector<GpuLink> links;  // of every pair
  // Of this process.
  std::vector<int> allowed_cpus;
  int allowed_cores = 0;               // physical
  std::vector<int> allowed_nodes;      // whose cores it may use
  std::vector<int> memory_nodes;       // whose memory it may use
  double quota_cpus = 0;               // CPU time of its control groups, in CPUs; 0: no limit
  std::optional<bool> numa_balancing;  // automatic; empty: the kernel has none
};

Topology read_topology();
// The part that hwloc knows, from a topology that it loaded.
Topology topology_of(hwloc_topology* loaded);
// Adds PCIe lanes, quotas and NUMA balancing from the files of Linux below `root`. A file that is
// missing or cannot be read changes nothing.
void add_linux_settings(Topology& topology, const std::filesystem::path& root = "/");

// {0, 1, 2, 3, 8} as "0-3,8".
std::string cpu_list(const std::vector<int>& cpus);

// Counts NVLinks through NVIDIA's management library, if it is installed, and names the GPUs.
void add_nvlinks(Topology& topology);

// A setting that costs speed, and the switch that mends it.
struct Obstacle {
  std::string what;
  std::string remedy;
};
std::vector<Obstacle> obstacles(const Topology& topology, int threads);

}  // namespace ridge::measure
