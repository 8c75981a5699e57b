// SPDX-License-Identifier: Apache-2.0
// Loads this machine's topology by hwloc, whose own functions read it. Includes no header of hwloc.
#pragma once

#include <memory>

struct hwloc_topology;
struct hwloc_bitmap_s;

namespace ridge {

struct HwlocFree {
  void operator()(hwloc_topology* topology) const;
  void operator()(hwloc_bitmap_s* bitmap) const;
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocFree>;
using HwlocBitmap = std::unique_ptr<hwloc_bitmap_s, HwlocFree>;

// The CPUs that are online, caches, NUMA nodes and PCI devices, also those that this process may
// not use. Throws if hwloc fails.
HwlocTopology load_hwloc_topology();

// The CPUs that the calling thread may use by its affinity mask and its control group. A topology
// that was read from a file has no thread: its own allowed CPUs.
HwlocBitmap allowed_cpus(hwloc_topology* topology);

}  // namespace ridge
