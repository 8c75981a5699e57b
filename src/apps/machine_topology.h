// SPDX-License-Identifier: Apache-2.0
// Shows where a machine's cores, memory and GPUs lie, and what costs speed there. Not a subcommand.
#pragma once

#include <string>

#include "apps/command.h"
#include "measure/topology.h"

namespace ridge::apps {

// One paragraph: sockets, cores, NUMA nodes, caches and GPUs.
std::string topology_line(const measure::Topology& topology);
// A line for each setting that costs speed, with the switch that mends it; empty if there is none.
std::string obstacle_lines(const measure::Topology& topology, int threads);
// Tables of caches, nodes with distances, GPUs and their links, and the obstacles.
void print_topology(const measure::Topology& topology,
                    int threads,
                    const TerminalOptions& terminal);
std::string topology_json(const measure::Topology& topology, int threads);

}  // namespace ridge::apps
