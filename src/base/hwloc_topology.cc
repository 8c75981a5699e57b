// SPDX-License-Identifier: Apache-2.0
// Says what hwloc keeps of a machine: everything that Linux knows, no devices of other drivers.
#include "base/hwloc_topology.h"

#include <hwloc.h>

#include <cstdlib>

#include "base/error.h"

namespace ridge {

void HwlocFree::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
void HwlocFree::operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }

HwlocTopology load_hwloc_topology() {
  // A machine without /sys is one without details, of which hwloc would print a line.
  ::setenv("HWLOC_HIDE_ERRORS", "2", 0);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error("[topology] hwloc could not start");
  HwlocTopology topology(raw);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  // Without OS devices, hwloc's plugins start no driver of a GPU.
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0)
    throw Error("[topology] hwloc could not read this machine's topology");
  return topology;
}

HwlocBitmap allowed_cpus(hwloc_topology* topology) {
  HwlocBitmap cpus(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  const HwlocBitmap bound(hwloc_bitmap_alloc());
  if (hwloc_topology_is_thissystem(topology) &&
      hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_THREAD) == 0)
    hwloc_bitmap_and(cpus.get(), cpus.get(), bound.get());
  return cpus;
}

}  // namespace ridge
