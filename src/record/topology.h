// SPDX-License-Identifier: Apache-2.0
// The places of a machine's cores, memory and GPUs, and the settings that cost speed there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/figures.h"

namespace ridge::record {

struct CpuCache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  int64_t bytes = 0;
  int instances = 0;
  int cpus = 0;  // the number that shares one
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
  std::string speed, most_speed;  // its PCIe link's now and at most: "16.0 GT/s PCIe"
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
  std::vector<GpuLink> links;  // one for every pair
  // This process may use these.
  std::vector<int> allowed_cpus;
  int allowed_cores = 0;               // physical
  std::vector<int> allowed_nodes;      // with cores that it may use
  std::vector<int> memory_nodes;       // with memory that it may use
  double quota_cpus = 0;               // CPU time of its control groups, in CPUs; 0: no limit
  std::optional<bool> numa_balancing;  // automatic; empty: the kernel has none
};

// {0, 1, 2, 3, 8} as "0-3,8".
std::string cpu_list(const std::vector<int>& cpus);

// A setting that costs speed, and the switch that mends it.
struct PerformanceWarning {
  std::string what;
  std::string remedy;
};
std::vector<PerformanceWarning> performance_warnings(const Topology& topology, int threads);

template <class See>
void figures(const See& see, const CpuCache& r) {
  see("level", r.level), see("type", r.type), see("bytes", r.bytes), see("instances", r.instances);
  see({"cpus", "", "that share one"}, r.cpus);
}

template <class See>
void figures(const See& see, const NumaNode& r) {
  see("id", r.id), see("cpus", r.cpus), see("memory_bytes", r.memory_bytes),
      see("distances", r.distances);
}

template <class See>
void figures(const See& see, const PciGpu& r) {
  see("address", r.address), see("vendor", r.vendor), see("name", r.name), see("node", r.node),
      see("speed", r.speed), see("most_speed", r.most_speed), see("width", r.width),
      see("most_width", r.most_width);
}

template <class See>
void figures(const See& see, const GpuLink& r) {
  see("first", r.first), see("second", r.second), see("kind", r.kind);
}

template <class See>
void figures(const See& see, const PerformanceWarning& r) {
  see("what", r.what), see("remedy", r.remedy);
}

template <class See>
void figures(const See& see, const Topology& r) {
  see("sockets", r.sockets), see("cores", r.cores), see("cpus", r.cpus);
  see({"allowed_cpus", "", "that this process may use"}, r.allowed_cpus);
  see("allowed_cores", r.allowed_cores), see("allowed_nodes", r.allowed_nodes),
      see("memory_nodes", r.memory_nodes);
  see({"quota_cpus", "", "CPU time of its control groups; 0: no limit"}, r.quota_cpus);
  see("numa_balancing", r.numa_balancing), see("caches", r.caches), see("nodes", r.nodes),
      see("gpus", r.gpus), see("links", r.links);
}

}  // namespace ridge::record
