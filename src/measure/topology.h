// SPDX-License-Identifier: Apache-2.0
// Reads a machine's topology by hwloc and from the files of Linux. It changes nothing.
#pragma once

#include <filesystem>

#include "record/topology.h"

struct hwloc_topology;

namespace ridge::measure {

record::Topology read_topology();
// The part that hwloc knows, from a topology that it loaded.
record::Topology topology_of(hwloc_topology* loaded);
// Adds PCIe lanes, quotas and NUMA balancing from the files of Linux below `root`. A file that is
// missing or cannot be read changes nothing.
void add_linux_settings(record::Topology& topology, const std::filesystem::path& root = "/");

// Counts NVLinks through NVIDIA's management library, if it is installed, and names the GPUs.
void add_nvlinks(record::Topology& topology);

}  // namespace ridge::measure
